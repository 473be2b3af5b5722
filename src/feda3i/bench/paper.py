"""The numbers of the paper, by row and setting of our grids."""

import tomllib
from pathlib import Path
from typing import Any

from feda3i.bench.stats import Spread

_PAPER: dict[str, Any] = tomllib.loads(Path(__file__).with_name("published.toml").read_text())
_SEEDS = 5


def published(row: str, setting: str) -> Spread | None:
    """Return the paper's Dice (0 to 1) of a row in a setting, or ``None`` if it has none.

    >>> published("feda3i", "SKIN N_S")
    Spread(mean=0.7269, std=0.0128, count=5)
    """
    dice = _PAPER["rows"].get(row, {}).get("dice")
    if not dice or setting not in _PAPER["settings"]:
        return None
    mean, std = dice[_PAPER["settings"].index(setting)]
    return Spread(round(mean / 100, 6), round(std / 100, 6), _SEEDS)


def label(row: str) -> str:
    """Return what a row is called in tables; rows of the user's own keep their words."""
    return str(_PAPER["rows"].get(row, {}).get("label", row))


def loss(row: str) -> str:
    """Return the family of the row's loss: CE, or DC where Dice is part of it."""
    own = "DC" if "loss=dc" in row.split(",") else "CE"
    return str(_PAPER["rows"].get(row, {}).get("loss", own))
