"""From a recipe to the federation that a run trains on: cases, sites, annotators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PydanticUserError, ValidationError, validate_call

from feda3i.core.cases import Federation
from feda3i.core.holdout import with_validation
from feda3i.data.folder import Folder
from feda3i.data.torch_items import Items, federation_of_items, gives_items
from feda3i.datasets import REGISTRY
from feda3i.errors import DataError, RecipeError, check_option, summary
from feda3i.reading.options import mistakes
from feda3i.recipe import Recipe
from feda3i.registry import declares
from feda3i.values import check_flags, keywords_of

if TYPE_CHECKING:
    from feda3i.noise.model import Annotator


def federation_of(recipe: Recipe, folder: Path | None = None) -> Federation:
    """Return the cases of a recipe, divided among sites, with the recipe's noise in the masks.

    Noisy masks are kept in the folder if one is given, and read from there the next time.
    """
    clean = clean_federation(recipe)
    return noisy_federation(clean, recipe, annotators_for(recipe, clean), folder)


def clean_federation(recipe: Recipe) -> Federation:
    """Read the cases of a recipe, divided among sites, with their masks as they are."""
    federation = load_data(recipe)
    _check_values(federation)
    return federation


def annotators_for(recipe: Recipe, federation: Federation) -> dict[str, Annotator]:
    """Return who draws the masks of each site; nobody without noise."""
    if recipe.noise.name != "none":
        from feda3i.simulation.annotation import annotators_of

        return annotators_of(recipe, federation)
    if recipe.noise.options():
        option = next(iter(recipe.noise.options()))
        raise RecipeError(f"noise.{option} has no effect without noise; choose e.g. noise=contour")
    return {}


def noisy_federation(
    clean: Federation,
    recipe: Recipe,
    annotators: Mapping[str, Annotator],
    folder: Path | None = None,
) -> Federation:
    """Return the federation with the masks that its annotators draw, validation cases apart."""
    if annotators:
        from feda3i.simulation.annotation import with_noise

        clean = with_noise(clean, recipe, annotators, folder)
    return with_validation(clean, recipe.validation.share, recipe.seed)


def load_data(recipe: Recipe) -> Federation:
    """Return the clean federation of a recipe."""
    name = recipe.data.name
    make = REGISTRY.get(name)
    if REGISTRY.is_code(name) and not (declares(make, Federation) or gives_items(make)):
        raise RecipeError(
            f"dataset '{name}': expected a torch Dataset, or a function declared '-> Federation' "
            f"or '-> Dataset', found {make!r}"
        )
    options = {**recipe.data.options()}
    if gives_items(make):
        federation: Any = _of_items(name, make, options, recipe.seed)
    else:
        federation = _call(name, make, options, keywords_of(make), recipe.seed)
        federation = federation.federation() if isinstance(federation, Folder) else federation
    if not isinstance(federation, Federation):
        raise DataError(f"dataset '{name}' must return a Federation, found {type(federation)!r}")
    return federation


def _of_items(name: str, make: Any, options: dict[str, Any], seed: int) -> Federation:
    """Make a federation of a torch data set: its own options first, all others divide the cases."""
    data, own = make, []
    ours = keywords_of(Items)
    if callable(make):
        own = keywords_of(make)
        mine = {key: value for key, value in options.items() if key in own}
        data = _call(name, make, mine, [*own, *ours], seed, own)
    rest = {key: value for key, value in options.items() if key not in own}
    return federation_of_items(data, _call(name, Items, rest, [*own, *ours], seed, ours))


def _call(
    name: str,
    make: Any,
    options: dict[str, Any],
    known: list[str],
    seed: int,
    own: list[str] | None = None,
) -> Any:
    """Call a data set with its options; unknown options are errors."""
    if "seed" in (known if own is None else own):
        options.setdefault("seed", seed)
    for option in options:
        check_option(f"dataset '{name}'", option, known)
    check_flags("data", make, options)
    try:
        # Pydantic cannot check the arguments of a class.
        return make(**options) if isinstance(make, type) else validate_call(make)(**options)
    except PydanticUserError as error:  # of a plug-in whose annotations cannot be read
        raise RecipeError(f"dataset '{name}' cannot be called: {summary(error)}") from None
    except ValidationError as error:
        raise RecipeError("\n".join(mistakes(error))) from None


def _check_values(federation: Federation) -> None:
    """Raise ``DataError`` if a mask holds more values than the data set declares."""
    classes = len(federation.classes)
    for split, cases in (("training", federation.train), ("test", federation.test)):
        for case, mask in zip(cases.ids, cases.masks, strict=True):
            if int(mask.max(initial=0)) > classes:
                raise DataError(
                    f"{split} case '{case}': expected mask values 0..{classes} "
                    f"({', '.join(federation.classes)}), found {int(mask.max())}"
                )
