"""Every key of a recipe: what it takes, its default and what it means, from the code itself.

A meaning stands where its option is defined: in a docstring right below a field of a class, or in
the section ``Parameters`` of a docstring (``a, b`` share a text).
"""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from feda3i.recipe import Recipe
from feda3i.recipe.trust import registries

FROM_DATA = ("channels", "classes", "dimensions", "shape")  # what a network gets from the cases


@dataclass(frozen=True)
class Key:
    """One key of a recipe; ``owner`` is the thing whose option it is, empty for the others."""

    name: str
    takes: str
    default: str
    meaning: str
    owner: str = ""


@functools.cache
def all_keys() -> tuple[Key, ...]:
    """Return the keys that every recipe has, then the options of everything with a name."""
    keys = options_of("", "", Recipe)
    for section, registry in registries().items():
        for name in registry.names():
            if not name.startswith("monai:"):  # MONAI documents its own
                keys += options_of(section, name, registry.get(name))
    # Options of one name that several things share are described once.
    meanings = {key.name: key.meaning for key in keys if key.meaning}
    return tuple(replace(key, meaning=key.meaning or meanings.get(key.name, "")) for key in keys)


def options_of(section: str, name: str, thing: Any) -> list[Key]:
    """Return what a recipe may set of a section, a method, a noise model, a data set or a network.

    The keys of sections within a section come along.
    """
    meanings, hints = meanings_of(thing), _hints_of(thing)
    keys = []
    for option, parameter in inspect.signature(thing).parameters.items():
        hint, is_free = hints.get(option, Any), option in getattr(thing, "OPTIONS", (option,))
        is_given = section == "model" and option in FROM_DATA
        if parameter.kind is parameter.VAR_KEYWORD or is_given or not is_free:
            continue
        place = f"{section}.{option}" if section else option
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            keys += options_of(place, name, hint)
        elif not (get_origin(hint) is Literal and len(get_args(hint)) == 1):
            usual = "the run's" if place == "data.seed" and name else _text(parameter.default)
            keys.append(Key(place, _takes(hint), usual, meanings.get(option, ""), name))
    return keys


def find_keys(name: str) -> list[Key]:
    """Return what a name means: ``train.lr``, ``data.size`` of every data set, or a section."""
    keys = all_keys()
    found = [key for key in keys if key.name == name]
    return listed_once(found or [k for k in keys if k.name.startswith(f"{name}.") and not k.owner])


def listed_once(keys: Iterable[Key]) -> list[Key]:
    """Return keys of the same name and meaning as one, with all their owners and defaults."""
    alike: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        alike.setdefault((key.name, key.meaning), []).append(key)
    return [_joined(same) for same in alike.values()]


def _joined(same: list[Key]) -> Key:
    owners: dict[str, list[str]] = {}
    for key in same:
        owners.setdefault(key.default, []).append(key.owner)
    defaults = [f"{default} ({', '.join(names)})" for default, names in owners.items()]
    return replace(
        same[0],
        takes=", or ".join(dict.fromkeys(key.takes for key in same)),
        default="; ".join(defaults if len(defaults) > 1 else owners),
        owner=", ".join(key.owner for key in same),
    )


def _text(default: Any) -> str:
    if default is None or default is inspect.Parameter.empty:
        return "not set"
    if isinstance(default, tuple):
        return f"[{', '.join(map(_text, default))}]"
    return str(default).lower() if isinstance(default, bool) else str(default) or '""'


def _hints_of(thing: Any) -> dict[str, Any]:
    """Return the annotations of what a callable takes; none if they cannot be read."""
    has_fields = is_dataclass(thing) or hasattr(thing, "model_fields")
    is_plain_class = isinstance(thing, type) and not has_fields
    try:
        return get_type_hints(thing.__init__ if is_plain_class else thing, include_extras=True)
    except (NameError, TypeError):  # names that exist for type checkers only
        return {}


def _takes(annotation: Any) -> str:
    try:
        return _words(TypeAdapter(annotation).json_schema())
    except PydanticUserError:
        return "any value"


def _words(schema: dict[str, Any]) -> str:
    """Return in words what a JSON schema allows: ``whole number from 1 to 9, or auto``."""
    if "anyOf" in schema:
        parts = [_words(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", or ".join(dict.fromkeys(parts))
    if "enum" in schema or "const" in schema:
        *first, last = map(str, schema.get("enum", [schema.get("const")]))
        return f"{', '.join(first)} or {last}" if first else last
    kind = str(schema.get("type"))
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        count = f" {len(schema['prefixItems'])}" if "prefixItems" in schema else ""
        return f"list of{count} {_words(items[0]).replace('number', 'numbers', 1)}"
    words = {"integer": "whole number", "boolean": "true or false", "object": "table"}
    words |= {"number": "number", "string": "path" if "format" in schema else "text"}
    limits = {"minimum": "from", "exclusiveMinimum": "above"}
    limits |= {"maximum": "to", "exclusiveMaximum": "below"}
    return words.get(kind, "any value") + "".join(
        f" {word} {schema[key]:,}"
        for key, word in limits.items()
        if key in schema and abs(schema[key]) < 2**53  # a limit of 64 bits is no news to a reader
    )


def meanings_of(thing: Any) -> dict[str, str]:
    """Return the meaning of each field of a class, or of each parameter of a function."""
    found: dict[str, str] = {}
    for owner in thing.__mro__[::-1] if isinstance(thing, type) else (thing,):
        if not getattr(owner, "__module__", "").startswith(("torch", "pydantic", "builtins")):
            found |= _parameters(owner)
            found |= _below_fields(owner) if isinstance(owner, type) else {}
    return found


def _below_fields(kind: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # made at run time: nothing to read
        return {}
    body = getattr(tree.body[0], "body", [])
    return {
        field.target.id: _one_line(str(text.value.value))
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _parameters(thing: Any) -> dict[str, str]:
    # Not the docstring of a base class: it is read for itself.
    own = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    text = inspect.cleandoc(own or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|^>>>|\Z)", text, re.M | re.S)
    entries = re.findall(
        r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?|\n)*)", section[1] if section else "", re.M
    )
    return {name: _one_line(body) for names, body in entries for name in names.split(", ")}


def _one_line(text: str) -> str:
    return " ".join(text.replace("``", "").split())
