"""Odd recipes: every key that a recipe can have, found by introspection, with odd values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from random import Random
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from odd_values import PLAIN, TYPED, mutated, text, toml_value
from pydantic import BaseModel

from feda3i.data.sets import REGISTRY as DATASETS
from feda3i.methods import REGISTRY as METHODS
from feda3i.models import REGISTRY as MODELS
from feda3i.noise.noisy_masks import REGISTRY as NOISE
from feda3i.recipe import Recipe
from feda3i.recipe.finding import FOLDER, built_in
from feda3i.values import keywords_of

SMALL = {
    "rounds": "1",
    "data.sites": "2",
    "data.cases": "2",
    "data.test": "2",
    "data.size": "32",
    "model.width": "4",
    "train.epochs": "1",
    "engine.workers": "1",
    "engine.device": "cpu",
}
"""What keeps a run at a fraction of a second; a key with an odd value is left out of it."""
WRONG_KEYS = (
    *("nope", "Rounds", "data.nope", "data.name.x", "rounds.x", "train", "engine", "methods"),
    *("method.name", "noise.annotators", "noise.annotators.site-01.mu", "methods.feda3i.t1"),
    *(".", "", "a.b.c.d", "fedavg.loss", "train.betas.x", "data.", ".data", "ä", "title"),
    *("seed.", "x" * 300),
)
REGISTRIES = {"data": DATASETS, "method": METHODS, "model": MODELS, "noise": NOISE}


@cache
def sections() -> tuple[str, ...]:
    """Return the keys of a recipe that are not options of a thing it names."""
    return tuple(key for key in keys() if key.split(".")[0] not in REGISTRIES)


@cache
def keys() -> tuple[str, ...]:
    """Return every key of a recipe: of the sections, and of all things that they can name."""
    found = {"data.synthetic"}
    for name, field in Recipe.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {name, *(f"{name}.{inner}" for inner in kind.model_fields)}
        else:
            found.add(name)
    for section, registry in REGISTRIES.items():
        found |= {
            f"{section}.{option}"
            for name in registry.names()
            for option in options_of(registry.get(name))
        }
    return tuple(sorted(found))


def options_of(thing: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a method, data set, noise model or network with their annotations."""
    if is_dataclass(thing):
        hints = get_type_hints(thing)
        return {field.name: hints.get(field.name) for field in fields(thing)}
    target = thing.__init__ if isinstance(thing, type) else thing
    try:
        hints = get_type_hints(target)
    except (NameError, TypeError):
        hints = {}
    return {name: hints.get(name) for name in keywords_of(thing)}


@cache
def section_types() -> dict[str, Any]:
    """Return the keys of the sections that every recipe has, with their annotations."""
    return {
        f"{name}.{inner}": field.annotation
        for name in ("train", "evaluate", "engine")
        for inner, field in Recipe.model_fields[name].annotation.model_fields.items()
    }


def small(draw: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a small recipe of some method, and the annotations of all options of its things."""
    chosen = {
        "data": draw.choice(("synthetic-skin", "synthetic-breast")),
        "method": draw.choice(METHODS.names()),
        "noise": draw.choice(NOISE.names()),
        "model": "unet" if draw.random() < 0.9 else draw.choice(MODELS.names()),
    }
    values = {**chosen, **SMALL, "noise.setting": draw.choice(("skin-ns", "breast-ne"))}
    if draw.random() < 0.4:
        values["rounds"] = "3"
    if chosen["model"] != "unet":
        del values["model.width"]
    own = {
        f"{section}.{option}": annotation
        for section, registry in REGISTRIES.items()
        for option, annotation in options_of(registry.get(chosen[section])).items()
    }
    return values, own


def assignments(draw: Random) -> dict[str, str]:
    """Return the keys and values of a recipe with one to three odd values."""
    values, own = small(draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pool = draw.choice((keys(), tuple(own), tuple(own), sections(), WRONG_KEYS, tuple(values)))
        values[draw.choice(pool)] = text(draw)
    return values


def mild(draw: Random) -> dict[str, str]:
    """Return a recipe whose odd values are at least of the right type, so that a run begins."""
    values, own = small(draw)
    own |= {key: kind for key, kind in section_types().items() if key not in values}
    for key in draw.sample(sorted(own), draw.choice((1, 2, 3))):
        values[key] = typed(own[key], draw)
    return values


def typed(annotation: Any, draw: Random) -> str:
    """Return a value of a type, from the middle of its range and from beyond its ends."""
    inner = [part for part in get_args(annotation) if part not in (type(None), Ellipsis)]
    if get_origin(annotation) is Literal:
        return str(draw.choice(inner))
    if get_origin(annotation) is tuple:
        return f"[{', '.join(typed(part, draw) for part in inner)}]"
    if get_origin(annotation) is Annotated:
        return typed(inner[0], draw)
    if inner:
        return typed(draw.choice(inner), draw)
    return draw.choice(TYPED.get(annotation, PLAIN))


def overrides(values: dict[str, str]) -> list[str]:
    """Return the values as ``key=value`` arguments."""
    return [f"{key}={value}" for key, value in values.items()]


def toml(values: dict[str, str], draw: Random) -> bytes:
    """Return the values as a TOML file, half of the time with some bytes wrong."""
    lines = []
    for key, value in values.items():
        bare = key + ".name" if key in ("data", "method", "noise", "model") else key
        lines.append(f"{bare} = {toml_value(value, draw) if value not in names() else repr(value)}")
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return mutated(data, draw) if draw.random() < 0.25 else data


def names() -> set[str]:
    """Return every registered name."""
    registered = (name for registry in REGISTRIES.values() for name in registry.names())
    return {"synthetic", "skin-ns", "breast-ne", "cpu", *registered}


def built_in_text(draw: Random) -> bytes:
    """Return a recipe of the package with some bytes wrong."""
    return mutated((FOLDER / f"{draw.choice(built_in())}.toml").read_bytes(), draw)
