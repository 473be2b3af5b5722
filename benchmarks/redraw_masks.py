"""Masks of known annotators, redrawn: mean Dice to the truth before and after.

Sites of 16 cases each, drawn from a folder of images and masks, with annotators of the paper's two
settings, all too large, careful ones and clean masks. b0 comes from 32 further cases with clean
masks.

    python benchmarks/redraw_masks.py OUT.jsonl --data FOLDER ...
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import offset_data
from feda3i import quality
from feda3i.metrics import dice
from feda3i.quality import SIDE

NOISE = ("skin-ns", "skin-ne", "all-over", "careful", "clean")
KINDS = ((40, 1), (5, 4))
"""Numbers of sites, and repetitions of each."""


def measured(cases: Any, masks: Any) -> quality.Offset:
    """Return what a site tells, in px at 256."""
    found = quality.measure_edges(cases.images, masks == 1)
    return scaled(found, SIDE / max(masks.shape[1:]))


def scaled(found: quality.Offset, by: float) -> quality.Offset:
    more = {"radius": found.radius * by} if hasattr(found, "radius") else {}
    return replace(found, offset=found.offset * by, error=found.error * by, **more)


def moves_of(told: list[quality.Offset], trusted: quality.Offset | None) -> tuple[Any, str]:
    """Return by how many px at 256 each site moves its contours, and why nobody does."""
    if hasattr(quality, "correction"):  # version 0.1
        return [quality.correction(one, trusted, SIDE, 2.0, 4.0) for one in told], ""
    found = quality.site_effects(told, trusted)
    return found.moves, found.reason


def rows_of(data: str, noise: str, seed: int, sites: int, size: int) -> dict[str, Any]:
    setting = offset_data.make(data, noise, seed, size=size, sites=sites)
    told = [measured(cases, cases.masks) for cases in setting.sites]
    b0 = measured(setting.trusted, setting.trusted.masks)
    row = {"data": Path(data).name, "noise": noise, "seed": seed, "sites": sites}
    row["mu"] = setting.mu.tolist()
    row["told"] = [[one.offset, one.error, one.cases, getattr(one, "radius", 0)] for one in told]
    row["b0"] = [b0.offset, b0.error]
    row["given"] = mean_dice(setting, np.zeros(sites))
    for name, trusted in (("b0", b0), ("no b0", None)):
        by, reason = moves_of(told, trusted)
        row[name] = mean_dice(setting, by)
        row[f"{name} left"] = float(np.mean(setting.mu + by))
        row[f"{name} why"] = reason
    return row


def mean_dice(setting: Any, by: Any) -> float:
    found = []
    for cases, clean, move in zip(setting.sites, setting.clean, by, strict=True):
        scale = max(cases.shape) / SIDE
        for mask, truth in zip(cases.masks, clean, strict=True):
            found.append(dice(quality.redraw(mask, [float(move) * scale]) > 0, truth > 0))
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--noise", nargs="*", default=NOISE)
    args = parser.parse_args()
    for data in args.data:
        for noise in args.noise:
            for sites, times in KINDS:
                for seed in range(times):
                    row = rows_of(data, noise, seed, sites, args.size)
                    with args.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(
                        row["data"],
                        noise,
                        sites,
                        seed,
                        *(f"{row[k]:.3f}" for k in ("given", "b0", "no b0")),
                        f"{row['b0 left']:+.1f} {row['no b0 left']:+.1f}",
                        row["no b0 why"],
                        flush=True,
                    )


if __name__ == "__main__":
    main()
