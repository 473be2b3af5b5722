"""Offsets measured from images alone against the annotators' true ones, and what redrawing gains.

For each data set, noise setting and seed: 40 sites of 16 cases with simulated annotators, 32
further cases with trusted masks. Every way to measure, every rule to redraw, and human annotators
if a folder of them is given (``images/``, ``masks/``, ``annotators/NAME/``, ``index.csv``). One
JSON line per place; what is in the file is not measured again. No training.

    python benchmarks/offset.py OUT.jsonl --data synthetic-skin skin=FOLDER [--people FOLDER]
    python benchmarks/offset.py OUT.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import offset_data
import offset_people
import offset_table
from feda3i.core.cases import Cases
from feda3i.metrics import dice
from feda3i.quality import (
    SIDE,
    Offset,
    calibrate_offset,
    colour_profile,
    contour_offset,
    correction,
    measure_edges,
    shift_mask,
)
from feda3i.quality.edges import SPAN, Evidence

Floats = NDArray[np.float64]
NOISE = ("skin-ns", "skin-ne", "breast-ns", "breast-ne", "all-over", "clean")


def _prototype(evidence: Evidence) -> Floats:
    """Return each case's best shift within one wide band around the drawn contour."""
    shifts = np.arange(-30, 31)
    return shifts[np.argmax(evidence.of(shifts, -45, 45), axis=1)].astype(float)


def _alone(evidence: Evidence) -> Floats:
    """Return each case's best shift, found as those of a site are."""
    return np.array([evidence.best(row)[0] for row in np.eye(len(evidence))])


def _rings_only(evidence: Evidence) -> float:
    return float(np.argmax(evidence.rings.sum(axis=0))) - SPAN


MEASURES: dict[str, Callable[[Evidence], float]] = {
    "wide band, median of cases": lambda e: float(np.median(_prototype(e))),
    "two steps, median of cases": lambda e: float(np.nanmedian(_alone(e))),
    "first step only, evidence added": _rings_only,
    "two steps, evidence added": lambda e: e.best(np.ones(len(e)))[0],
}
"""Ways to measure a site; the last is what ``measure_edges`` does."""


def measure_all(cases: Cases, number: int) -> dict[str, float]:
    """Return a site's offset by every measure from its first cases, px at 256."""
    pairs = zip(cases.images[:number], cases.masks[:number], strict=True)
    profiles = [colour_profile(image, mask) for image, mask in pairs]
    evidence = Evidence([profile for profile in profiles if profile is not None])
    return {name: -measure(evidence) for name, measure in MEASURES.items()}


def soft(value: float, threshold: float) -> float:
    """Return a value drawn towards zero by the threshold."""
    return math.copysign(max(0.0, abs(value) - threshold), value)


def shifts_of(measured: Offset, trusted: Offset, side: int) -> dict[str, float]:
    """Return by how many pixels each rule moves a site's contours outwards."""
    known = calibrate_offset(measured, trusted, side)
    rules = {
        "redraw": correction(measured, trusted, side, 2.0, 4.0),
        "redraw, no b0": correction(measured, None, side, 2.0, 4.0),
        "no threshold": -known.offset if known.is_known else 0.0,
        "soft threshold": -soft(known.offset, 2 * known.error) if known.is_known else 0.0,
        "no b0, no slack": correction(measured, None, side, 0.0, 0.0),
    }
    return rules


def mean_dice(masks: Any, clean: Any) -> float:
    """Return the mean Dice of masks to the clean ones."""
    return float(np.mean([dice(one > 0, two > 0) for one, two in zip(masks, clean, strict=True)]))


def row_of(data: str, folder: str, noise: str, seed: int, size: int) -> dict[str, Any]:
    """Return what was measured at one place: lists over its sites, px at 256."""
    setting = offset_data.make(folder, noise, seed, size=size)
    scale = size / SIDE
    trusted = measure_edges(setting.trusted.images, setting.trusted.masks)
    row: dict[str, Any] = {"data": data, "noise": noise, "seed": seed, "size": size}
    row |= {"mu": setting.mu.tolist(), "b0": trusted.offset / scale, "measured": [], "four": []}
    row |= {"drawn": [], "offset": [], "error": [], "reason": [], "dice": []}
    row["trusted"] = measure_all(setting.trusted, len(setting.trusted))
    for cases, clean, mu in zip(setting.sites, setting.clean, setting.mu, strict=True):
        pairs = zip(cases.masks, clean, strict=True)
        row["drawn"].append(float(np.nanmedian([contour_offset(*pair) for pair in pairs])) / scale)
        measured = measure_edges(cases.images, cases.masks)
        known = calibrate_offset(measured, trusted, size)
        row["offset"].append(known.offset / scale if known.is_known else None)
        row["error"].append(known.error / scale if known.is_known else None)
        row["reason"].append(known.reason)
        row["measured"].append(measure_all(cases, len(cases)))
        row["four"].append(measure_all(cases, 4))
        rules = {"given": 0.0, "by the true mu": -mu * scale}
        rules |= shifts_of(measured, trusted, size)
        moved = {name: [shift_mask(m, by) for m in cases.masks] for name, by in rules.items()}
        row["dice"].append({name: mean_dice(masks, clean) for name, masks in moved.items()})
    return row


def main() -> None:
    """Measure what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="+", default=[], help="NAME=FOLDER, or a synthetic set")
    parser.add_argument("--people", type=Path, help="a folder with several annotators per image")
    parser.add_argument("--noise", nargs="+", default=list(NOISE), choices=NOISE)
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101, 102])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--table", action="store_true", help="print what the file holds")
    arguments = parser.parse_args()
    rows = []
    if arguments.out.exists():
        rows = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    done = {(row["data"], row.get("noise"), row.get("seed"), row["size"]) for row in rows}
    for seed, data, noise in product(arguments.seeds, arguments.data, arguments.noise):
        name, _, folder = data.partition("=")
        if arguments.table or (name, noise, seed, arguments.size) in done:
            continue
        row = row_of(name, folder or name, noise, seed, arguments.size)
        rows.append(row)
        with arguments.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, noise, seed, flush=True)
    print(offset_table.table(rows))
    if arguments.people:
        print(offset_people.table(arguments.people))


if __name__ == "__main__":
    main()
