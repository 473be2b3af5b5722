"""The name of a run, made of what it does: the recipe, and what was changed in it.

>>> from feda3i.recipe import load
>>> base, changed = load("demo"), load("demo", ["noise.setting=skin-ns", "method=fedavg", "seed=3"])
>>> name_of(changed, base, "demo")
RunName(title='demo, fedavg, seed 3, setting skin-ns', stem='demo-fedavg-seed3')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from feda3i.recipe import Recipe
from feda3i.values import flat_items

SHOWN = 4
"""Changes that a title tells, beyond data, method and seed."""
# They have a place of their own in the name, or change no number of the run.
UNNAMED = (
    *("title", "seed", "methods", "engine", "method.name", "data.name", "data.path"),
    *("data.synthetic", "data.cache"),
)


@dataclass(frozen=True)
class RunName:
    """What the console calls a run, and its folder if none is given."""

    title: str
    stem: str


def name_of(recipe: Recipe, base: Recipe, source: str) -> RunName:
    """Return the name of a run; ``base`` is the recipe before anything was changed in it."""
    title = recipe.title or base.title or source
    data = [] if _data(recipe) == _data(base) else [_data(recipe)]
    method = recipe.method.name.rpartition(":")[2]
    told = [*data, *([method] if recipe.method.name != base.method.name else [])]
    told += [f"seed {recipe.seed}"] if recipe.seed != base.seed else []
    changes = _changes(recipe, base)
    more = [f"{len(changes) - SHOWN} more changes"] if len(changes) > SHOWN else []
    start = source if recipe.title == base.title else recipe.title
    stem = "-".join(filter(None, map(slug, [start, *data, method])))
    return RunName(
        ", ".join([title, *told, *changes[:SHOWN], *more]), f"{stem[:80]}-seed{recipe.seed}"
    )


def _data(recipe: Recipe) -> str:
    path = recipe.data.options().get("path")
    name = Path(str(path)).resolve().name if path else recipe.data.name.rpartition(":")[2]
    return name or recipe.data.name


def _changes(recipe: Recipe, base: Recipe) -> list[str]:
    """Return the keys whose values differ from the recipe's own, in the order of the sections."""
    before = dict(flat_items(base.to_dict()))
    if recipe.method.name != base.method.name:  # compare with what the recipe has for this one
        before = {k: v for k, v in before.items() if not k.startswith("method.")}
        before |= flat_items({"method": base.methods.get(recipe.method.name, {})})
    return [
        f"{key.rpartition('.')[2]} {value:g}"
        if isinstance(value, float)
        else f"{key.rpartition('.')[2]} {value}"
        for key, value in flat_items(recipe.to_dict())
        if before.get(key) != value
        and not any(key == apart or key.startswith(f"{apart}.") for apart in UNNAMED)
    ]


def slug(text: str) -> str:
    """Return text for the name of a folder: ``rounds 3`` is rounds3, ``t1 4`` is t1-4."""
    joined = re.sub(r"(?<=[A-Za-z_]) (?=[\d-])", "", text)
    return re.sub(r"[^\w.]+", "-", joined, flags=re.UNICODE).strip("-.")
