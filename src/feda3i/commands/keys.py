"""Every key of a recipe: what it takes, its default and what it means, from the code itself.

A meaning stands where its option is defined, in one of two forms: a docstring right below a field
of a class, or the section ``Parameters`` of a docstring (``a, b`` share a text; ``As for
:func:`other``` is followed).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from feda3i.errors import RecipeError
from feda3i.recipe import Recipe
from feda3i.recipe.trust import registries
from feda3i.values import hints_of

UNSET = "not set"


@dataclass(frozen=True)
class Key:
    """One key of a recipe; ``owner`` is the thing whose option it is, empty for the others."""

    name: str
    takes: str
    default: str
    meaning: str
    owner: str = ""


def all_keys() -> list[Key]:
    """Return the keys that every recipe has, then the options of everything with a name."""
    return options_of("", "", Recipe) + [
        key
        for section, registry in registries().items()
        for name in registry.names()
        if not name.startswith("monai:")  # MONAI documents its own
        for key in options_of(section, name, registry.get(name))
    ]


def options_of(section: str, name: str, thing: Any) -> list[Key]:
    """Return what a recipe may set of a section, a method, a noise model, a data set or a network.

    The keys of sections within a section come along.
    """
    meanings, hints = meanings_of(thing), hints_of(thing)
    keys = []
    for option, parameter in inspect.signature(thing).parameters.items():
        hint, default = hints.get(option, Any), parameter.default
        place = f"{section}.{option}" if section else option
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            keys += options_of(place, name, hint)
        elif parameter.kind is not parameter.VAR_KEYWORD and _is_free(section, thing, option, hint):
            usual = "the run's" if place == "data.seed" and name else value_text(default)
            keys.append(Key(place, takes(hint), usual, meanings.get(option, ""), name))
    return keys


def _is_free(section: str, thing: Any, option: str, hint: Any) -> bool:
    """Return whether a recipe may set an option: it is not given, and has more than one value."""
    if section == "model" and option in ("channels", "classes", "dimensions", "shape"):
        return False
    make = getattr(thing, "for_annotator", None)
    if make is not None:
        from feda3i.noise.model import Annotator

        try:
            make(Annotator(1.0, 1.0), **{option: None})
        except RecipeError as error:
            return "comes from the annotator" not in str(error)
    return not (get_origin(hint) is Literal and len(get_args(hint)) == 1)


def find_keys(name: str) -> list[Key]:
    """Return what a name means: ``train.lr``, ``data.size`` of every data set, ``feda3i.r``.

    The name of a section stands for all that every recipe has in it. Keys of the same name and
    meaning are one, with all their owners.
    """
    methods = registries()["method"]
    head, _, rest = name.partition(".")
    method = methods.canonical(head)
    if rest and head not in Recipe.model_fields and method in methods.names():
        keys = options_of("method", method, methods.get(method))
        return [key for key in keys if key.name == f"method.{rest}"]
    keys = all_keys()
    found = [key for key in keys if key.name == name]
    found = found or [k for k in keys if k.name.startswith(f"{name}.") and not k.owner]
    return listed_once(found)


def listed_once(keys: Iterable[Key]) -> list[Key]:
    """Return keys of the same name and meaning as one, with all their owners and defaults."""
    alike: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        alike.setdefault((key.name, key.meaning), []).append(key)
    return [_one_of(same) for same in alike.values()]


def _one_of(same: list[Key]) -> Key:
    owners: dict[str, list[str]] = {}
    for key in same:
        owners.setdefault(key.default, []).append(key.owner)
    several = "; ".join(f"{default} ({', '.join(names)})" for default, names in owners.items())
    return replace(
        same[0],
        takes=", or ".join(dict.fromkeys(key.takes for key in same)),
        default=same[0].default if len(owners) == 1 else several,
        owner=", ".join(key.owner for key in same if key.owner),
    )


def value_text(default: Any) -> str:
    """Return a value as in a recipe, but text without quotes."""
    if default is None or default is inspect.Parameter.empty:
        return UNSET
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return f"[{', '.join(value_text(item) for item in default)}]"
    return str(default) if default != "" else '""'


def takes(annotation: Any) -> str:
    """Return in words what a key takes.

    >>> from typing import Annotated, Literal
    >>> from pydantic import Field
    >>> takes(Annotated[int, Field(ge=1, le=9)] | Literal["auto"])
    'whole number from 1 to 9, or auto'
    """
    try:
        schema = TypeAdapter(annotation).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError):
        return "any value"
    return _words(schema)


def _words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        parts = [_words(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return ", or ".join(dict.fromkeys(parts))
    if "enum" in schema or "const" in schema:
        return _or(map(str, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return ("whole number" if kind == "integer" else "number") + _limits(schema)
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        count = f" {len(schema['prefixItems'])}" if "prefixItems" in schema else ""
        one = _words(items[0])
        return f"list of{count} {one.replace('number', 'numbers', 1)}"
    names = {"boolean": "true or false", "object": "table"}
    text = "path" if schema.get("format") == "path" else "text"
    return names.get(str(kind), text if kind == "string" else "any value")


def _limits(schema: dict[str, Any]) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above"}
    words |= {"maximum": "to", "exclusiveMaximum": "below"}
    # A limit of 64 bits is no news to a reader.
    return "".join(
        f" {word} {schema[key]:,}"
        for key, word in words.items()
        if key in schema and abs(schema[key]) < 2**53
    )


def _or(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


# -- meanings -------------------------------------------------------------------------------------


def meanings_of(thing: Any) -> dict[str, str]:
    """Return the meaning of each field of a class, or of each parameter of a function.

    >>> from feda3i.methods.fedprox import FedProx
    >>> meanings_of(FedProx)["mu"]
    'Strength of the pull; 0 is FedAvg.'
    """
    found: dict[str, str] = {}
    owners = thing.__mro__[::-1] if isinstance(thing, type) else (thing,)
    for owner in owners:
        if owner is object or getattr(owner, "__module__", "").startswith(("torch", "pydantic")):
            continue
        found |= _parameters(owner)
        if isinstance(owner, type):
            found |= _below_fields(owner)
    return found


def _below_fields(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # made at run time: nothing to read
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, text in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = _one_line(str(text.value.value))
    return found


def _parameters(thing: Any) -> dict[str, str]:
    """Return the section ``Parameters`` of a docstring."""
    # Not the docstring of a base class: it is read for itself.
    own = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    text = inspect.cleandoc(own or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|^>>>|\Z)", text, re.M | re.S)
    found: dict[str, str] = {}
    for names, body in re.findall(
        r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?|\n)*)", section[1] if section else "", re.M
    ):
        meaning = _one_line(body)
        other = re.fullmatch(r"As for :func:`([\w.]+)`\.?", meaning)
        there = meanings_of(_named(other[1], thing)) if other else {}
        for name in names.split(", "):
            found[name] = there.get(name, "") if other else meaning
    return found


def _named(name: str, near: Any) -> Any:
    """Return a function by its dotted path, or by its name beside another one."""
    place, _, attribute = name.rpartition(".")
    module = importlib.import_module(place) if place else sys.modules[near.__module__]
    return getattr(module, attribute)


def _one_line(text: str) -> str:
    """Return a text as one line, without the marks of code.

    >>> _one_line('''``"a"`` is
    ...     one''')
    '"a" is one'
    """
    return " ".join(text.replace("``", "").split())
