"""Recipes: one TOML file says everything about a run; ``key=value`` on the command line overrides.

>>> recipe = load(None, ["method=fedavg", "rounds=3", "data.size=48"])
>>> recipe.method.name, recipe.rounds, recipe.data.options()["size"]
('fedavg', 3, 48)
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from feda3i.data.sets import REGISTRY as DATASETS
from feda3i.data.sets import is_ours, refuse_both
from feda3i.errors import RecipeError, nearest, shown
from feda3i.methods import REGISTRY as METHODS
from feda3i.reading.csv_table import is_table
from feda3i.recipe.finding import SECTIONS, find, read_toml
from feda3i.recipe.machine import with_local
from feda3i.recipe.sections import MethodSection, Recipe
from feda3i.values import check_plain, mistakes


def load(
    source: str | Path | None,
    overrides: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Recipe:
    """Read a recipe by path or by the name of a built-in one and apply ``key=value`` overrides.

    An option of a method that is not the chosen one (``feda3i.t1=4`` with ``method=fedavg``) is an
    error; with ``tell`` it is checked, left out and told, for a list of overrides that serves
    several methods. The recorded recipe of a run is completed by what its folder knows of this
    machine.
    """
    return validate(changed(read_values(source), overrides, tell))


def read_values(source: str | Path | None) -> dict[str, Any]:
    """Return the plain values of a recipe, before any change; those of no recipe are none."""
    if source is None:
        return {}
    file = find(source)
    return with_local(read_toml(file), file.parent)


def changed(
    values: Mapping[str, Any],
    overrides: Sequence[str],
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return the plain values of a recipe with ``key=value`` overrides."""
    made = deepcopy(dict(values))
    common, own = _split(overrides)
    for override in common:
        _apply(made, override)
    method = str(_table(made, "method").get("name", MethodSection().name))
    for override in _chosen(own, method, tell):
        _apply(made, override)
    return _resolve_data(made)


def _split(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the overrides for every method, and those for one as ``{method: ["t1=4", ...]}``.

    >>> _split(["rounds=3", "feda3i.t1=4", "method=fedavg"])
    (['rounds=3', 'method=fedavg'], {'feda3i': ['t1=4']})
    """
    common: list[str] = []
    own: dict[str, list[str]] = {}
    known = METHODS.names()
    for override in overrides:
        name, _, rest = override.strip().partition(".")
        is_section = name in Recipe.model_fields  # redraw.on, though there is a method redraw
        if "=" not in name and rest and not is_section and METHODS.canonical(name) in known:
            own.setdefault(METHODS.canonical(name.strip()), []).append(rest)
        else:
            common.append(override)
    return common, own


def _chosen(
    own: dict[str, list[str]], method: str, tell: Callable[[str], None] | None
) -> list[str]:
    """Return the overrides of the chosen method; check those of the others and tell about them.

    An option that its method does not have is an error even if that method is not chosen: it would
    never do anything.
    """
    from feda3i.methods.base import make_method

    name = METHODS.canonical(method)
    for other, options in own.items():
        if other == name:
            continue
        make_method(other, _options(options))
        for option in options:
            if tell is None:
                raise RecipeError(
                    f"{other}.{option} has no effect: the method is {method}; "
                    f"choose method={other}, or leave the option out"
                )
            tell(f"{other}.{option} is ignored: the method is {method}")
    return [f"method.{option}" for option in own.get(name, [])]


def _options(overrides: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for override in overrides:
        _apply(values, f"method.{override}")
    return _table(values, "method")


def validate(values: Mapping[str, Any]) -> Recipe:
    """Check plain values and return the recipe; all wrong values are named in one error."""
    check_plain(values)
    _check_known(Recipe, values)
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError(mistakes(error)) from None


def _apply(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise RecipeError(f"expected an override as key=value, found '{override}'")
    *path, last = key.strip().split(".")
    value = parse_value(text.strip())
    check_plain(value, key)
    if not path and last in SECTIONS:
        if not isinstance(value, str) or not value:
            raise RecipeError(f"{last}: expected a name, found {shown(value)}")
        options = _table(_table(values, "methods"), value) if last == "method" else {}
        values[last] = _renamed(last, _table(values, last), value, options)
        return
    if path and path[0] not in Recipe.model_fields:
        known = [*Recipe.model_fields, *METHODS.names()]  # fedprox.mu is short for method.mu
        raise RecipeError(
            f"unknown key '{key}'{nearest(path[0], known) or '.'} "
            f"'{path[0]}' is neither a section of a recipe nor a method"
        )
    inner = values
    for name in path:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RecipeError(f"'{key}': '{name}' is a value, not a section")
    inner[last] = value


def _table(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table within a table; an empty one if there is anything else."""
    inner = values.get(key)
    return inner if isinstance(inner, dict) else {}


def _renamed(
    section: str, old: dict[str, Any], value: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Return a section after ``section=value``: options belong to the thing that they were for."""
    if old.get("name") == value:
        return old
    if section == "data":
        refuse_both(str(value))
        is_path = ":" not in str(value) and (
            Path(str(value)).is_dir() or is_table(Path(str(value)))
        )
        if is_path and not str(old.get("name", "synthetic")).startswith("synthetic"):
            return {**old, "path": str(value)}
        # A data set of the user's own has options of its own: those of another are not for it.
        kept: tuple[str, ...] = ("normalise", "normalise_over", "normalise_by")
        if is_ours(str(value)):
            kept += ("synthetic", "sites", "cases", "test", "size")
        return {**{key: old[key] for key in kept if key in old}, "name": value}
    return {**options, "name": value}


def parse_value(text: str) -> Any:
    """Read a TOML value; what is not one is a string: ``lr=0.1``, ``data=/some/path``."""
    try:
        values = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:  # thousands of digits or of brackets
        raise RecipeError(f"cannot read {shown(text)}: {error}") from None
    return values["value"] if len(values) == 1 else text  # a second line is no second value


def _resolve_data(values: dict[str, Any]) -> dict[str, Any]:
    data = values.get("data")
    if not isinstance(data, dict) or "name" not in data:
        return values
    name = str(data["name"])
    if name == "synthetic":
        family = data.get("synthetic", "synthetic-skin")
        return {**values, "data": {**data, "name": family}}
    if ":" not in name and DATASETS.canonical(name) not in DATASETS.names():
        if Path(name).exists():
            return {**values, "data": {**data, "name": "folder", "path": name}}
        if "/" in name or "\\" in name:
            raise RecipeError(f"data: there is no folder '{name}'")
    return values


def _check_known(kind: Any, values: Any, place: str = "") -> None:
    """Raise ``RecipeError`` with the nearest key for one that no section has."""
    known = getattr(kind, "model_fields", {})
    for name, value in values.items() if known and isinstance(values, Mapping) else ():
        if name in known:
            _check_known(known[name].annotation, value, f"{place}{name}.")
        elif kind.model_config.get("extra") == "forbid":
            hint = nearest(str(name), known) or "."
            raise RecipeError(f"unknown key '{place}{name}'{hint} Known: {', '.join(known)}")
