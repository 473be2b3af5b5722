"""The table of ``feda3i noise pdn``: which noise model meets which condition of PDN."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from feda3i import seeding
from feda3i.geometry import Binary
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.flip import ClassConditional
from feda3i.noise.levelset import SignedDistanceEvolution
from feda3i.noise.markov import MarkovNoise
from feda3i.noise.model import NoiseModel, NoiseWarning, check_number
from feda3i.noise.morphology import MorphologicalNoise
from feda3i.noise.pdn import pixel_dependence

Shape = Literal["disc", "ellipse", "lobes"]

MODELS: Mapping[str, NoiseModel] = {
    "CEM C(0,6) faithful, fixed start": ContourEvolution(0, 6, mode="faithful", start="fixed"),
    "CEM C(0,6) faithful, random start": ContourEvolution(0, 6, mode="faithful"),
    "CEM C(0,6) robust, fixed start": ContourEvolution(0, 6, start="fixed"),
    "CEM C(0,6) robust, random start": ContourEvolution(0, 6),
    "levelset C(0,6), fixed start": SignedDistanceEvolution(0, 6, start="fixed"),
    "levelset C(0,6), random start": SignedDistanceEvolution(0, 6),
    "CCN rate 0.2": ClassConditional(),
    "MON distance 7..9": MorphologicalNoise(),
    "MON distance 0..6": MorphologicalNoise(low=0, high=6),
    "MON relative": MorphologicalNoise(variant="relative"),
    "MLN T 200, theta .5 .05 .2": MarkovNoise(200, 0.5),
    "MLN T 200, theta .8 .05 .2": MarkovNoise(200, 0.8),
}


def clean_shape(name: Shape, radius: float) -> Binary:
    """Return a disc, an ellipse of axes 3 : 2 or a three-lobed shape of this mean radius."""
    side = 3 * math.ceil(radius) + 80
    rows, cols = np.mgrid[:side, :side] - side // 2
    away = np.hypot(rows, cols)
    if name == "ellipse":
        away = np.hypot(rows * 1.5**0.5, cols / 1.5**0.5)
    elif name == "lobes":
        away = away / (1.0 + 0.25 * np.cos(3 * np.arctan2(rows, cols)))
    return np.asarray(away <= radius, np.uint8)


def dependence_rows(
    draws: int,
    radius: float,
    seed: int,
    shape: Shape = "disc",
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Test every model on a shape of this radius; one row of plain values per model."""
    check_number("radius", radius, low=1.0, high=1000.0)
    clean = clean_shape(shape, radius)
    table = []
    for done, (name, model) in enumerate(MODELS.items(), 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            found = pixel_dependence(model, clean, draws, seeding.rng(seed, "pdn", name))
        table.append(
            {
                "model": name,
                "near": found.near,
                "far": found.far,
                "z": found.z,
                "pdn_1": found.meets_first(),
                "lowest_sector": float(found.sectors.min()),
                "highest_sector": float(found.sectors.max()),
                "chi_square": found.chi_square,
                "degrees": found.degrees,
                "p_chi_square": found.p_chi_square,
                "p_rotation": found.p_rotation,
                "pdn_2": found.meets_second(),
            }
        )
        if progress:
            progress(done, len(MODELS))
    return table


def dependence_text(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| noise | flips near / far | z | PDN-1 | sectors | chi-square | p | p rotation | PDN-2 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first, second = ("yes" if row[key] else "no" for key in ("pdn_1", "pdn_2"))
        lines.append(
            f"| {row['model']} | {row['near']:.3f} / {row['far']:.4f} | {row['z']:.1f} | {first} | "
            f"{row['lowest_sector']:.2f}..{row['highest_sector']:.2f} | "
            f"{row['chi_square']:.1f} / {row['degrees']} | {row['p_chi_square']:.2g} | "
            f"{row['p_rotation']:.3f} | {second} |"
        )
    return "\n".join(lines)
