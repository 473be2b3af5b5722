"""Odd recipes: every key that a recipe can have, with odd values."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from odd_values import FRACTIONS, PLAIN, WHOLE, mutated, text, toml_value

from feda3i.commands.keys import all_keys, options_of
from feda3i.recipe.finding import FOLDER, built_in
from feda3i.recipe.trust import registries
from short import TINY

# What keeps a run at a fraction of a second.
SMALL = dict(part.split("=") for part in TINY[2:]) | {"rounds": "1", "engine.device": "cpu"}
WRONG_KEYS = (
    *("nope", "Rounds", "data.nope", "data.name.x", "rounds.x", "train", "engine", "methods"),
    *("method.name", "noise.annotators", "noise.annotators.site-01.mu", "methods.feda3i.t1"),
    *(".", "", "a.b.c.d", "fedavg.loss", "train.betas.x", "data.", ".data", "ä", "title"),
    *("seed.", "x" * 300),
)


@cache
def keys() -> dict[str, str]:
    """Return what every key of a recipe takes: of the sections, and of all that they can name."""
    found = {key.name: key.takes for key in all_keys()}
    return found | {name.rpartition(".")[0] or name: "table" for name in found}


def small(draw: Random) -> tuple[dict[str, str], dict[str, str]]:
    """Return a small recipe of some method, and what the options of its things take."""
    known = registries()
    chosen = {
        "data": draw.choice(("synthetic-skin", "synthetic-breast")),
        "method": draw.choice(known["method"].names()),
        "noise": draw.choice(known["noise"].names()),
        "model": "unet" if draw.random() < 0.9 else draw.choice(known["model"].names()),
    }
    values = {**chosen, **SMALL, "noise.setting": draw.choice(("skin-ns", "breast-ne"))}
    if draw.random() < 0.4:
        values["rounds"] = "3"
    if chosen["model"] != "unet":
        del values["model.width"]
    own = {
        key.name: key.takes
        for section, registry in known.items()
        for key in options_of(section, chosen[section], registry.get(chosen[section]))
    }
    return values, own


def assignments(draw: Random) -> dict[str, str]:
    """Return the keys and values of a recipe with one to three odd values."""
    values, own = small(draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        pool = draw.choice((keys(), keys(), own, own, WRONG_KEYS, values))
        values[draw.choice(tuple(pool) or WRONG_KEYS)] = text(draw)
    return values


def mild(draw: Random) -> dict[str, str]:
    """Return a recipe whose odd values are at least of the right type, so that a run begins."""
    values, own = small(draw)
    common = re.compile(r"(train|evaluate|engine|validation)\.")
    own |= {k: takes for k, takes in keys().items() if common.match(k) and k not in values}
    for key in draw.sample(sorted(own), draw.choice((1, 2, 3))):
        values[key] = typed(own[key], draw)
    return values


def typed(takes: str, draw: Random) -> str:
    """Return a value of what a key takes in words, from its range and from beyond its ends."""
    part = draw.choice(re.split(r", or |, | or ", takes))
    if part.startswith("list of"):
        values = WHOLE if "whole" in part else FRACTIONS
        return f"[{', '.join(draw.choice(values) for _ in range(draw.choice((1, 2, 2, 3))))}]"
    for kind, values in (("whole number", WHOLE), ("number", FRACTIONS)):
        if part.startswith(kind):
            return draw.choice(values)
    return draw.choice(PLAIN) if part in ("text", "path", "table", "any value") else part


def overrides(values: dict[str, str]) -> list[str]:
    """Return the values as ``key=value`` arguments."""
    return [f"{key}={value}" for key, value in values.items()]


def toml(values: dict[str, str], draw: Random) -> bytes:
    """Return the values as a TOML file, a quarter of the time with some bytes wrong."""
    names = {"synthetic", "skin-ns", "breast-ne", "cpu"}.union(
        *(registry.names() for registry in registries().values())
    )
    lines = []
    for key, value in values.items():
        bare = f"{key}.name" if key in registries() else key
        lines.append(f"{bare} = {repr(value) if value in names else toml_value(value, draw)}")
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return mutated(data, draw) if draw.random() < 0.25 else data


def built_in_text(draw: Random) -> bytes:
    """Return a recipe of the package with some bytes wrong."""
    return mutated((FOLDER / f"{draw.choice(built_in())}.toml").read_bytes(), draw)
