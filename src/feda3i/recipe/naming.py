"""The name of a run's folder, made of what the run does."""

from __future__ import annotations

import re
from pathlib import Path

from feda3i.recipe import Recipe


def run_name(recipe: Recipe, source: str) -> str:
    """Return the name of the folder for a run of a recipe.

    >>> from feda3i.recipe import load
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
