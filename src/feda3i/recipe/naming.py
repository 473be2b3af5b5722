"""The name of a run, made of what it does: the recipe, and what was changed in it.

>>> from feda3i.recipe import load
>>> base, changed = load("demo"), load("demo", ["noise.setting=skin-ns", "method=fedavg", "seed=3"])
>>> name_of(changed, base, "demo")
RunName(title='demo, SKIN N_S, fedavg, seed 3', stem='demo-skin-ns-fedavg-seed3')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feda3i.recipe import Recipe
from feda3i.values import flat_items

LONGEST = 80
"""Letters of a folder's name; what does not fit is left out of it."""
SHOWN = 4
"""Changes that a title tells, beyond data, noise, method and seed."""
# They have a place of their own in the name, or change no number of the run.
UNNAMED = (
    *("title", "seed", "methods", "engine", "method.name", "data.name", "data.path"),
    *("data.synthetic", "data.cache", "noise.name", "noise.setting"),
)


@dataclass(frozen=True)
class RunName:
    """What the console calls a run, and its folder if none is given."""

    title: str
    stem: str


def name_of(recipe: Recipe, base: Recipe, source: str) -> RunName:
    """Return the name of a run; ``base`` is the recipe before anything was changed in it."""
    title, stem = base.title or source, source
    if recipe.title != base.title:  # given by hand: it is the name
        title = stem = recipe.title
    elif _noise(recipe) != _noise(base):
        title = _replaced(title, _noise(base), _spoken(_noise(recipe)), ", ")
        stem = _replaced(stem, _noise(base), _noise(recipe), "-")
    data = [] if _data(recipe) == _data(base) else [_data(recipe)]
    changes = [f"{key.rpartition('.')[2]} {_text(value)}" for key, value in _changes(recipe, base)]
    if len(changes) > SHOWN:
        changes[SHOWN:] = [f"{len(changes) - SHOWN} more changes"]
    method = recipe.method.name.rpartition(":")[2]
    told = [
        *data,
        *([method] if recipe.method.name != base.method.name else []),
        *changes,
        *([f"seed {recipe.seed}"] if recipe.seed != base.seed else []),
    ]
    parts = [stem, *data, method, *changes]
    folder = "-".join(filter(None, map(slug, parts)))[:LONGEST].rstrip("-.")
    return RunName(", ".join([title, *told]), f"{folder}-seed{recipe.seed}")


def _data(recipe: Recipe) -> str:
    path = recipe.data.options().get("path")
    name = Path(str(path)).resolve().name if path else recipe.data.name.rpartition(":")[2]
    return name or recipe.data.name


def _noise(recipe: Recipe) -> str:
    name = recipe.noise.name.rpartition(":")[2]
    setting = (recipe.noise.setting or "").lower().replace("_", "-")
    return setting or ("no noise" if name == "none" else name)


def _spoken(setting: str) -> str:
    """Return a setting as the paper writes it: ``skin-ns`` is SKIN N_S."""
    family, _, kind = setting.partition("-n")
    return f"{family.upper()} N_{kind.upper()}" if kind in ("s", "e") else setting


def _replaced(name: str, before: str, now: str, joint: str) -> str:
    """Return a name in which one noise took the place of another, or was put behind it."""
    pattern = re.sub(r"[ _-]+n", r"[ _-]n_?", before)  # skin-ns is also skin_ns and SKIN N_S
    found = re.search(pattern, name, flags=re.IGNORECASE)
    if found is None:
        return f"{name}{joint}{now}"
    family = re.split(r"[ _-]", found[0])[0]  # what the data are has not changed with the noise
    label = now if now.lower().startswith(family.lower()) else f"{family} {now}"
    return name[: found.start()] + label + name[found.end() :]


def _changes(recipe: Recipe, base: Recipe) -> list[tuple[str, Any]]:
    """Return the keys whose values differ from the recipe's own, in the order of the sections."""
    before = dict(flat_items(base.to_dict()))
    if recipe.method.name != base.method.name:  # compare with what the recipe has for this one
        before = {k: v for k, v in before.items() if not k.startswith("method.")}
        before |= flat_items({"method": base.methods.get(recipe.method.name, {})})
    return [
        (key, value)
        for key, value in flat_items(recipe.to_dict())
        if before.get(key) != value
        and not any(key == apart or key.startswith(f"{apart}.") for apart in UNNAMED)
    ]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def slug(text: str) -> str:
    """Return text for the name of a folder: ``rounds 3`` is rounds3, ``t1 4`` is t1-4."""
    joined = re.sub(r"(?<=[A-Za-z_]) (?=[\d-])", "", text)
    return re.sub(r"[^\w.]+", "-", joined, flags=re.UNICODE).strip("-.")
