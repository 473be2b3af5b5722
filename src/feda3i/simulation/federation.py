"""From a recipe to the federation that a run trains on: cases, sites, annotators."""

from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError, ValidationError

from feda3i.core.cases import Federation
from feda3i.core.holdout import with_validation
from feda3i.data.folder import Folder
from feda3i.data.sets import REGISTRY
from feda3i.errors import DataError, RecipeError, check_option, summary
from feda3i.noise.model import Annotator
from feda3i.recipe import Recipe
from feda3i.registry import declares
from feda3i.simulation.annotation import annotators_of, with_noise
from feda3i.values import keywords_of, made_with, mistakes


def federation_of(recipe: Recipe) -> Federation:
    """Return the cases of a recipe, divided among sites, with the recipe's noise in the masks."""
    clean = clean_federation(recipe)
    return noisy_federation(clean, recipe, annotators_of(recipe, clean))


def clean_federation(recipe: Recipe) -> Federation:
    """Read the cases of a recipe, divided among sites, with their masks as they are."""
    federation = load_data(recipe)
    classes = len(federation.classes)
    for split, cases in (("training", federation.train), ("test", federation.test)):
        for case, mask in zip(cases.ids, cases.masks, strict=True):
            if int(mask.max(initial=0)) > classes:
                raise DataError(
                    f"{split} case '{case}': expected mask values 0..{classes} "
                    f"({', '.join(federation.classes)}), found {int(mask.max())}"
                )
    return federation


def noisy_federation(
    clean: Federation, recipe: Recipe, annotators: Mapping[str, Annotator]
) -> Federation:
    """Return the federation with the masks that its annotators draw, validation cases apart."""
    if annotators:
        clean = with_noise(clean, recipe, annotators)
    return with_validation(clean, recipe.validation.share, recipe.seed)


def load_data(recipe: Recipe) -> Federation:
    """Return the clean federation of a recipe."""
    name = recipe.data.name
    make = REGISTRY.get(name)
    if REGISTRY.is_code(name) and not declares(make, Federation):
        raise RecipeError(
            f"dataset '{name}': expected a function declared '-> Federation', found {make!r}"
        )
    found = _call(name, make, {**recipe.data.options()}, recipe.seed)
    federation = found.federation() if isinstance(found, Folder) else found
    if not isinstance(federation, Federation):
        raise DataError(f"dataset '{name}' must return a Federation, found {type(federation)!r}")
    return federation


def _call(name: str, make: Any, options: dict[str, Any], seed: int) -> Any:
    known = keywords_of(make)
    if "seed" in known:
        options.setdefault("seed", seed)
    for option in options:
        check_option(f"dataset '{name}'", option, known)
    try:
        return made_with(make, options)
    except PydanticUserError as error:  # of a plug-in whose annotations cannot be read
        raise RecipeError(f"dataset '{name}' cannot be called: {summary(error)}") from None
    except ValidationError as error:
        raise RecipeError(mistakes(error, "data")) from None
