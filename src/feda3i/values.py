"""Plain values from recipes, files and command lines: what is allowed, checked before use.

A value that is wrong everywhere (not a number, more digits than a machine word, nested without end,
text that is no text) is refused here once, so that no later code meets it.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from feda3i.errors import RecipeError, nearest, shown

if TYPE_CHECKING:
    from pydantic import ValidationError

LARGEST = 2**63 - 1
DEEPEST = 16


def check_plain(value: Any, place: str = "", depth: int = 0) -> None:
    """Raise ``RecipeError`` unless this is text, a finite number, a truth value, a list or a table.

    >>> check_plain({"train": {"lr": float("nan")}})
    Traceback (most recent call last):
    feda3i.errors.RecipeError: train.lr: expected a finite number, found nan
    """
    where = place if len(place) <= 80 else f"{place[:80]}..."
    if depth > DEEPEST:
        raise RecipeError(f"{where}: nested more than {DEEPEST} levels deep")
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_text(str(key), f"a key in {where or 'the recipe'}")
            check_plain(item, f"{place}.{key}" if place else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check_plain(item, place, depth + 1)
    elif isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RecipeError(f"{where}: expected a finite number, found {value}")
    elif isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        raise RecipeError(f"{where}: expected a whole number of at most 64 bits")
    elif value is not None and not isinstance(value, bool | int | float):
        expected = "text, a number, true or false, a list or a table"
        raise RecipeError(f"{where}: expected {expected}, found {shown(value)}")


def mistakes(error: ValidationError, *before: str) -> str:
    """Return one line per mistake: the key, what was expected, what was found."""
    lines = []
    for item in error.errors():
        place, found = ".".join(map(str, (*before, *item["loc"]))), item["input"]
        close = ""
        if item["type"] == "literal_error" and isinstance(found, str):
            close = nearest(found, re.findall(r"'([^']*)'", item["ctx"]["expected"]))
        message = item["msg"][:1].lower() + item["msg"][1:]
        lines.append(f"{place}: {message}, found {shown(found)}{close}")
    return "\n".join(lines)


def split_names(text: str) -> tuple[str, ...]:
    """Return names separated by commas.

    >>> split_names("liver, tumour,")
    ('liver', 'tumour')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def flat_items(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("train.lr", 0.005)`` for every value of nested tables."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_items(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def check_text(text: str, place: str) -> None:
    """Raise ``RecipeError`` for what is no text, or what another program would run as code.

    MONAI evaluates values that begin with ``$`` and replaces ``@name`` and ``%file``.
    """
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        expected = "text in UTF-8 without control characters"
        raise RecipeError(f"{place}: expected {expected}, found {shown(text)}")
    if text.lstrip().startswith(("$", "@", "%")):
        why = "other programs would run it as code (write a path as ./$...)"
        expected = "text that does not begin with $, @ or %"
        raise RecipeError(f"{place}: expected {expected}, found {shown(text)}; {why}")


def made_with(thing: Any, options: Mapping[str, Any]) -> Any:
    """Call a function, or make a model, with options as a recipe gives them; types are strict.

    >>> def zoom(factor: float) -> float:
    ...     return factor
    >>> made_with(zoom, {"factor": 2})
    2.0
    """
    from pydantic import TypeAdapter

    # As JSON, since a recipe has lists where the code has tuples.
    return TypeAdapter(thing).validate_json(json.dumps(options), strict=True)


def keywords_of(thing: Any) -> list[str]:
    """Return the names of the arguments that a callable takes by name; none if it does not tell.

    >>> keywords_of(lambda size, *, seed=0: None)
    ['size', 'seed']
    """
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in _parameters(thing) if parameter.kind in kinds]


def takes_any_keyword(thing: Any) -> bool:
    """Return whether a callable takes arguments of any name (``**options``)."""
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in _parameters(thing))


def _parameters(thing: Any) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return ()
