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
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from feda3i.errors import RecipeError
from feda3i.recipe import Recipe

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
    from feda3i.methods import REGISTRY as METHODS

    keys = [*_of_sections(Recipe)]
    keys += [*_of_registry("data"), *_of_registry("noise"), *_of_registry("model")]
    for name in METHODS.names():
        keys += options_of("method", name, METHODS.get(name))
    return keys


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


def options_of(section: str, name: str, thing: Any) -> list[Key]:
    """Return the options of a method, a noise model, a data set or a network."""
    meanings, hints = meanings_of(thing), _hints(section, thing)
    keys = []
    for option, default in _defaults(section, thing).items():
        is_seed = section == "data" and option == "seed"
        usual = UNSET if default is MISSING else value_text(default)
        keys.append(
            Key(
                f"{section}.{option}",
                takes(hints.get(option, Any)),
                "the run's" if is_seed else usual,
                meanings.get(option, ""),
                name,
            )
        )
    return keys


def find_keys(name: str) -> list[Key]:
    """Return what a name means: ``train.lr``, ``data.size`` of every data set, ``feda3i.r``.

    The name of a section stands for all that every recipe has in it.
    """
    from feda3i.methods import REGISTRY as METHODS

    head, _, rest = name.partition(".")
    method = METHODS.canonical(head)
    if rest and head not in Recipe.model_fields and method in METHODS.names():
        keys = options_of("method", method, METHODS.get(method))
        return [key for key in keys if key.name == f"method.{rest}"]
    found = [key for key in all_keys() if key.name == name]
    return found or [key for key in all_keys() if key.name.startswith(f"{name}.") and not key.owner]


def _of_sections(kind: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    meanings = meanings_of(kind)
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _of_sections(annotation, f"{prefix}{name}.")
            continue
        hint = get_type_hints(kind, include_extras=True)[name]
        yield Key(f"{prefix}{name}", takes(hint), value_text(field.default), meanings.get(name, ""))


def _of_registry(section: str) -> Iterator[Key]:
    from feda3i.recipe.trust import registries

    registry = registries()[section]
    for name in registry.names():
        if name.startswith("monai:"):
            continue  # MONAI documents its own
        yield from options_of(section, name, registry.get(name))


def _defaults(section: str, thing: Any) -> dict[str, Any]:
    """Return what a recipe may set of a thing, with defaults; ``MISSING`` where it has none."""
    if section == "noise":
        found = {field.name: field.default for field in fields(thing)}
        return {k: v for k, v in found.items() if not _is_given(thing, k, v)}
    if section == "method":
        declared = thing.model_fields.items()
        return {
            k: MISSING if one.is_required() else one.default
            for k, one in declared
            if not _is_fixed(one.annotation)
        }
    given = ("channels", "classes", "dimensions", "shape") if section == "model" else ()
    taken = inspect.signature(thing).parameters.items()
    return {k: MISSING if p.default is p.empty else p.default for k, p in taken if k not in given}


def _is_fixed(annotation: Any) -> bool:
    """Return whether an option takes one value only, so that there is nothing to set."""
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def _is_given(model: Any, option: str, default: Any) -> bool:
    from feda3i.noise.model import Annotator

    if default is MISSING:
        return True
    try:
        model.for_annotator(Annotator(1.0, 1.0), **{option: default})
    except RecipeError as error:
        return "comes from the annotator" in str(error)
    return False


def _hints(section: str, thing: Any) -> dict[str, Any]:
    if section in ("data", "model") and isinstance(thing, type) and not is_dataclass(thing):
        thing = getattr(thing, "__init__", thing)
    try:
        return get_type_hints(thing, include_extras=True)
    except NameError:  # a name that only type checkers see
        return {}


def value_text(default: Any) -> str:
    """Return a value as in a recipe, but text without quotes."""
    if default is None or default == UNSET:
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
