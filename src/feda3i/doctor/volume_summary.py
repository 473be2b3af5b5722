"""Sizes, spacings and intensities of volumes: their ranges, and whether the scales differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from feda3i.doctor.facts import Facts
from feda3i.doctor.volume_classes import class_rows
from feda3i.reading.listing import Listed
from feda3i.reading.problems import Problem

SCALES = 3.0
"""Times by which the spread of values may differ between volumes before it is told."""


def summarise_volumes(facts: Sequence[Facts], classes: Sequence[str]) -> dict[str, Any]:
    """Return ranges and counts as JSON values, without the names of classes and cases."""
    known = [fact.spacing for fact in facts if len(fact.spacing) == 3]
    ends = np.array([(f.volume.low, f.volume.high) for f in facts if f.volume is not None])
    rows = [asdict(row) for row in class_rows(classes, facts)]
    return {
        "sides": _ranges([fact.shape for fact in facts]),
        "spacing_mm": _ranges(known),
        "without_spacing": len(facts) - len(known),
        "low": _ranges(ends[:, :1])[0],
        "high": _ranges(ends[:, 1:])[0],
        "spread": _ranges(ends[:, 1:] - ends[:, :1])[0],
        "classes": [{k: row[k] for k in row if k != "name"} for row in rows],
    }


def volume_lines(summary: dict[str, Any]) -> list[str]:
    """Return the lines about sizes, spacings and intensities."""
    missing = summary["without_spacing"]
    spacing = f"{_by(summary['spacing_mm'])} mm" if summary["spacing_mm"] else "not known"
    low, high, spread = (summary[name] for name in ("low", "high", "spread"))
    return [
        f"sizes              {_by(summary['sides'])} voxels (slice x row x column), median "
        + " x ".join(f"{side['median']:g}" for side in summary["sides"]),
        f"spacing            {spacing}{f'; {missing} without' if missing else ''}",
        f"intensities        low end {_range(low)}, high end {_range(high)} (0.5 and 99.5 % of the "
        f"voxels); widths differ by {times(spread)}",
    ]


def judge_scales(cases: Sequence[Listed], facts: Sequence[Facts]) -> list[Problem]:
    """Return a note if the values of one volume spread much wider than those of another."""
    pairs = zip(cases, facts, strict=True)
    widths = [(f.volume.high - f.volume.low, case.name) for case, f in pairs if f.volume]
    some = sorted((width, name) for width, name in widths if width > 0)
    if not some or some[-1][0] <= SCALES * some[0][0]:
        return []
    (least, narrow), (most, wide) = some[0], some[-1]
    text = (
        f"its values spread {most / least:,.1f} times as wide as those of {narrow}: leave "
        "data.normalise at zscore (the default) or take percentiles; window and constant need "
        "one scale for all"
    )
    return [Problem("note", "intensity scales differ", wide, text)]


def times(spread: dict[str, float]) -> str:
    """Return by how many times widths differ, in words.

    >>> times({"min": 2.0, "median": 3.0, "max": 8.0})
    '4.0 times'
    """
    return f"{spread['max'] / spread['min']:,.1f} times" if spread["min"] > 0 else "any number"


def _ranges(values: Any) -> list[dict[str, float]]:
    """Return least, median and most of each column."""
    found = np.array(values, float)
    if not found.size:
        return []
    return [
        {
            "min": round(float(column.min()), 4),
            "median": round(float(np.median(column)), 4),
            "max": round(float(column.max()), 4),
        }
        for column in found.T
    ]


def _by(columns: Sequence[dict[str, float]]) -> str:
    return " x ".join(_range(column).replace(" to ", "-") for column in columns)


def _range(one: dict[str, float]) -> str:
    low, high = _number(one["min"]), _number(one["max"])
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
