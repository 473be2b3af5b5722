"""What all volumes hold: classes, sizes, spacings, intensities, and where they do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from feda3i.data.case_facts import ANY_CLASS, Facts
from feda3i.reading.options import DEFAULT_CLASSES
from feda3i.reading.problems import Problem

SCALES = 3.0
"""Times by which the spread of values may differ between volumes before it is told."""
_FEW = 32  # mask values up to this are classes, also with gaps between them
_MOST_ROWS = 40  # of classes


def settle_classes(names: Sequence[str], facts: Sequence[Facts]) -> tuple[str, ...]:
    """Return the classes: as named, or else as the masks have them.

    Values that follow each other, perhaps with gaps, are classes; strays far above are not.
    """
    if tuple(names) != ANY_CLASS:
        return tuple(names)
    values = sorted({value for fact in facts for value in fact.values if value})
    likely = [v for n, v in enumerate(values, start=1) if v <= _FEW or 2 * n >= v]
    if len(values) < 2 or max(likely, default=1) == 1:
        return DEFAULT_CLASSES
    return ANY_CLASS[: likely[-1]]


def class_rows(classes: Sequence[str], facts: Sequence[Facts]) -> list[dict[str, Any]]:
    """Return one row per class; where there is one, all values but 0 are it."""
    total = sum(sum(fact.voxels.values()) for fact in facts)
    rows = []
    for number, name in enumerate(classes, start=1):
        seen = sorted({v for fact in facts for v in fact.voxels if v})
        values = [number] if len(classes) > 1 else seen
        held = [sum(fact.voxels.get(value, 0) for value in values) for fact in facts]
        have = sum(count > 0 for count in held)
        rows.append(
            {
                "name": name,
                "value": ", ".join(str(value) for value in values[:3]) or "-",  # in the files
                "voxels": sum(held),
                "share": sum(held) / max(1, total),
                "cases": have,
                "missing": len(held) - have,  # cases without it
            }
        )
    return rows


def class_lines(classes: Sequence[str], facts: Sequence[Facts]) -> list[str]:
    """Return the classes below each other, one line each."""
    width = max(len(name) for name in [*classes, "class"])
    lines = [f"{'class':{width}}  value      voxels    share  cases  missing in"]
    for row in class_rows(classes, facts)[:_MOST_ROWS]:
        lines.append(
            f"{row['name']:{width}}  {row['value']:>5}  {row['voxels']:10}  {row['share']:7.3%}  "
            f"{row['cases']:5}  {row['missing']:10}"
        )
    rest = len(classes) - _MOST_ROWS
    return [*lines, f"... and {rest} more classes"] if rest > 0 else lines


def judge_classes(
    classes: Sequence[str], names: Sequence[str], facts: Sequence[Facts]
) -> list[Problem]:
    """Return what is wrong with the values of the masks, case by case."""
    held = Counter(value for fact in facts for value in fact.values)
    problems = [
        Problem("note", "class in no mask", ".", f"no mask holds {name} (value {value})")
        for value, name in enumerate(classes, start=1)
        if len(classes) > 1 and not held[value]
    ]
    for name, fact in zip(names, facts, strict=True):
        problems += _judge_one(classes, name, fact, held)
    return problems


def _judge_one(classes: Sequence[str], name: str, fact: Facts, held: Counter[int]) -> list[Problem]:
    drawn, is_one = fact.values - {0}, len(classes) == 1
    if len(drawn) > 1 if is_one else (fact.is_cut or max(drawn, default=0) > len(classes)):
        other = "values above 255 or between" if fact.is_cut else _list(fact.values)
        text = f"expected 0 to {len(classes)} (one per class), found {other}: relabel the mask"
        return [Problem("error", "mask values", name, text)]
    if is_one:
        usual = max((v for v in held if v), key=lambda v: held[v], default=1)
        text = f"found {_list(fact.values)}, most masks hold 0 and {usual}: taken as the same class"
        return [] if drawn <= {usual} else [Problem("note", "mask values differ", name, text)]
    missing = [n for k, n in enumerate(classes, start=1) if held[k] and k not in fact.values]
    if not missing or not drawn:
        return []  # a mask that is empty altogether is told elsewhere
    return [Problem("note", "class missing", name, f"no voxel of {', '.join(missing)}")]


def _list(values: frozenset[int]) -> str:
    return ", ".join(str(value) for value in sorted(values)[:8])


def judge_scales(names: Sequence[str], facts: Sequence[Facts]) -> list[Problem]:
    """Return a note if the values of one volume spread much wider than those of another."""
    widths = [fact.ends[1] - fact.ends[0] for fact in facts]
    some = sorted((width, name) for width, name in zip(widths, names, strict=True) if width > 0)
    if not some or some[-1][0] <= SCALES * some[0][0]:
        return []
    (least, narrow), (most, wide) = some[0], some[-1]
    text = (
        f"its values spread {most / least:,.1f} times as wide as those of {narrow}: leave "
        "data.normalise at zscore (the default) or take percentiles; window and constant need "
        "one scale for all"
    )
    return [Problem("note", "intensity scales differ", wide, text)]


def summarise_volumes(facts: Sequence[Facts], classes: Sequence[str]) -> dict[str, Any]:
    """Return ranges and counts as JSON values, without the names of classes and cases."""
    known = [fact.spacing for fact in facts if len(fact.spacing) == 3]
    ends = np.array([fact.ends for fact in facts])
    low, high, spread = ranges(np.column_stack([ends, ends[:, 1] - ends[:, 0]]))
    return {
        "sides": ranges([fact.shape for fact in facts]),
        "spacing_mm": ranges(known),
        "without_spacing": len(facts) - len(known),
        "low": low,
        "high": high,
        "spread": spread,
        "classes": [
            {key: row[key] for key in row if key != "name"} for row in class_rows(classes, facts)
        ],
    }


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Return the lines about sizes, spacings and intensities."""
    missing = summary["without_spacing"]
    spacing = f"{_by(summary['spacing_mm'])} mm" if summary["spacing_mm"] else "not known"
    low, high, spread = (summary[name] for name in ("low", "high", "spread"))
    times = f"{spread['max'] / spread['min']:,.1f}" if spread["min"] > 0 else "any number of"
    return [
        f"sizes              {_by(summary['sides'])} voxels (slice x row x column), median "
        + " x ".join(f"{side['median']:g}" for side in summary["sides"]),
        f"spacing            {spacing}{f'; {missing} without' if missing else ''}",
        f"intensities        low end {_range(low)}, high end {_range(high)} (0.5 and 99.5 % of the "
        f"voxels); widths differ by {times} times",
    ]


def ranges(values: Any) -> list[dict[str, float]]:
    """Return least, median and most of each column, rounded; nothing without values."""
    found = np.array(values, float)
    if not found.size:
        return []
    rows = np.stack([found.min(axis=0), np.median(found, axis=0), found.max(axis=0)], axis=1)
    return [dict(zip(("min", "median", "max"), row, strict=True)) for row in rows.round(4).tolist()]


def _by(columns: Sequence[dict[str, float]]) -> str:
    return " x ".join(_range(column).replace(" to ", "-") for column in columns)


def _range(one: dict[str, float]) -> str:
    low, high = (
        f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        for value in (one["min"], one["max"])
    )
    return low if low == high else f"{low} to {high}"
