"""The numbers of the paper, by row and setting of our grids."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from feda3i.bench.stats import Spread

FILE = Path(__file__).with_name("published.toml")
SEEDS = 5


CONTENT: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))


def published(row: str, setting: str) -> Spread | None:
    """Return the paper's Dice (0 to 1) of a row in a setting, or ``None`` if it has none.

    >>> published("feda3i", "SKIN N_S")
    Spread(mean=0.7269, std=0.0128, count=5)
    """
    found = CONTENT["rows"].get(row)
    if found is None or setting not in CONTENT["settings"] or not found["dice"]:
        return None
    mean, std = found["dice"][CONTENT["settings"].index(setting)]
    return Spread(round(mean / 100, 6), round(std / 100, 6), SEEDS)


def label(row: str) -> str:
    """Return what a row is called in tables; rows of the user's own keep their words."""
    found = CONTENT["rows"].get(row)
    return row if found is None else str(found["label"])


def loss(row: str) -> str:
    """Return the family of the row's loss: CE, or DC where Dice is part of it.

    >>> loss("fedmix"), loss("mine,loss=dc"), loss("mine")
    ('DC', 'DC', 'CE')
    """
    found = CONTENT["rows"].get(row)
    if found is not None:
        return str(found["loss"])
    return "DC" if "loss=dc" in row.split(",") else "CE"
