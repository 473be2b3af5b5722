"""From a recipe to the federation that a run trains on: cases, sites, annotators."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pydantic import ValidationError, validate_call

from feda3i.data.base import Federation
from feda3i.data.registry import REGISTRY
from feda3i.errors import DataError, RecipeError, nearest
from feda3i.recipe import Recipe
from feda3i.registry import declares


def federation_of(recipe: Recipe, folder: Path | None = None) -> Federation:
    """Return the cases of a recipe, divided among sites, with the recipe's noise in the masks.

    Noisy masks are kept in the folder if one is given, and read from there the next time.
    """
    return disturb(check_recipe(recipe), recipe, folder)


def disturb(federation: Federation, recipe: Recipe, folder: Path | None = None) -> Federation:
    """Return a clean federation with the recipe's noise in its masks."""
    if recipe.noise.name == "none":
        return federation
    from feda3i.engine.noising import annotators_of, with_noise

    return with_noise(federation, recipe, annotators_of(recipe, federation), folder)


def check_recipe(recipe: Recipe) -> Federation:
    """Return the clean federation after checking that the recipe's noise can be made."""
    federation = load_data(recipe)
    _check_values(federation)
    if recipe.noise.name != "none":
        from feda3i.engine.noising import annotators_of

        annotators_of(recipe, federation)
    return federation


def load_data(recipe: Recipe) -> Federation:
    """Return the clean federation of a recipe."""
    name = recipe.data.name
    make = REGISTRY.get(name)
    if REGISTRY.is_code(name) and not declares(make, Federation):
        raise RecipeError(
            f"dataset '{name}': expected a function declared '-> Federation', found {make!r}"
        )
    options = {**recipe.data.options()}
    known = _keywords(make)
    if "seed" in known:
        options.setdefault("seed", recipe.seed)
    for option in options:
        if option not in known:
            raise RecipeError(
                f"dataset '{name}' has no option '{option}'{nearest(option, known)} "
                f"Known: {', '.join(known)}"
            )
    try:
        federation = validate_call(make)(**options)
    except ValidationError as error:
        lines = [
            f"data.{'.'.join(str(part) for part in item['loc'])}: {item['msg'].lower()}, "
            f"found {item['input']!r}"
            for item in error.errors()
        ]
        raise RecipeError("\n".join(lines)) from None
    if not isinstance(federation, Federation):
        raise DataError(f"dataset '{name}' must return a Federation, found {type(federation)!r}")
    return federation


def _keywords(make: Any) -> list[str]:
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(make).parameters.values() if p.kind in kinds]


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
