"""Read recipes, apply ``key=value`` to them, and check the result."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from feda3i.data.sets import REGISTRY as DATASETS
from feda3i.data.sets import is_ours
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
    error; with ``tell`` it is checked, left out and told. The recorded recipe of a run is completed
    by what its folder knows of this machine.
    """
    made: dict[str, Any] = {}
    if source is not None:
        file = find(source)
        made = with_local(read_toml(file), file.parent)
    of_methods = []
    for override in overrides:
        head, _, option = override.strip().partition(".")
        name = METHODS.canonical(head)
        # redraw.on is an option of a section, though there is a method redraw
        if option and name in METHODS.names() and head not in Recipe.model_fields:
            of_methods.append((name, option))
        else:
            _apply(made, override)
    chosen = str(_table(made, "method").get("name", MethodSection().name))
    for name, option in of_methods:
        if name == METHODS.canonical(chosen):
            _apply(made, f"method.{option}")
        else:
            _ignore(name, option, chosen, tell)
    return validate(_resolve_data(made))


def _ignore(name: str, option: str, chosen: str, tell: Callable[[str], None] | None) -> None:
    """Check an option of a method that is not the chosen one, and tell that it does nothing."""
    from feda3i.methods.base import make_method

    values: dict[str, Any] = {}
    _apply(values, f"method.{option}")
    make_method(name, values["method"])
    if tell is None:
        text = f"{name}.{option} has no effect: the method is {chosen}"
        raise RecipeError(f"{text}; choose method={name}, or leave the option out")
    tell(f"{name}.{option} is ignored: the method is {chosen}")


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
    section: str, old: dict[str, Any], name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Return a section after ``section=name``: options belong to the thing that they were for."""
    if old.get("name") == name:
        return old
    if section != "data":
        return {**options, "name": name}
    is_place = ":" not in name and (Path(name).is_dir() or is_table(Path(name)))
    if is_place and not str(old.get("name", "synthetic")).startswith("synthetic"):
        return {**old, "path": name}
    # A data set of the user's own has options of its own: those of another are not for it.
    shared = ("synthetic", "sites", "cases", "test", "size") if is_ours(name) else ()
    kept = (*shared, "normalise", "normalise_over", "normalise_by")
    return {**{key: old[key] for key in kept if key in old}, "name": name}


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
            others = () if place else METHODS.names()  # fedprox.mu is short for method.mu
            hint = nearest(str(name), [*known, *others]) or "."
            raise RecipeError(f"unknown key '{place}{name}'{hint} Known: {', '.join(known)}")


def run_name(recipe: Recipe, source: str) -> str:
    """Return the name of the folder for a run of a recipe.

    >>> run_name(load("demo", ["method=fedavg", "seed=3"]), "demo")
    'demo-fedavg-seed3'
    """
    path = recipe.data.options().get("path")
    data = [Path(str(path)).resolve().name] if path else []
    stem = "-".join(map(slug, [source, *data, recipe.method.name.rpartition(":")[2]]))
    return f"{stem[:80]}-seed{recipe.seed}"


def slug(text: str) -> str:
    """Return text for the name of a folder: ``rounds 3`` is rounds3, ``t1 4`` is t1-4."""
    joined = re.sub(r"(?<=[A-Za-z_]) (?=[\d-])", "", text)
    return re.sub(r"[^\w.]+", "-", joined, flags=re.UNICODE).strip("-.")
