"""What all volumes hold: classes, sizes, spacings, intensities, and where they do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from feda3i.data.case_facts import Facts
from feda3i.data.volume_look import ANY_CLASS
from feda3i.reading.listing import Listed
from feda3i.reading.options import DEFAULT_CLASSES
from feda3i.reading.problems import Problem

SCALES = 3.0
"""Times by which the spread of values may differ between volumes before it is told."""
_FEW = 32  # mask values up to this are classes, also with gaps between them


@dataclass(frozen=True)
class ClassRow:
    """One class over all cases."""

    name: str
    value: str  # in the files
    voxels: int
    share: float  # of all voxels
    cases: int  # that have it
    missing: int  # cases without it


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


def class_rows(classes: Sequence[str], facts: Sequence[Facts]) -> list[ClassRow]:
    """Return one row per class; where there is one, all values but 0 are it."""
    counts = [fact.volume.voxels for fact in facts if fact.volume is not None]
    total = sum(sum(own.values()) for own in counts)
    rows = []
    for number, name in enumerate(classes, start=1):
        values = [number] if len(classes) > 1 else sorted({v for own in counts for v in own if v})
        held = [sum(own.get(value, 0) for value in values) for own in counts]
        shown = ", ".join(str(value) for value in values[:3]) or "-"
        have = sum(count > 0 for count in held)
        share = sum(held) / max(1, total)
        rows.append(ClassRow(name, shown, sum(held), share, have, len(held) - have))
    return rows


def judge_classes(
    classes: Sequence[str], cases: Sequence[Listed], facts: Sequence[Facts]
) -> list[Problem]:
    """Return what is wrong with the values of the masks, case by case."""
    problems = [
        Problem("note", "class in no mask", ".", f"no mask holds {row.name} (value {row.value})")
        for row in class_rows(classes, facts)
        if not row.cases and len(classes) > 1
    ]
    held = Counter(value for fact in facts for value in fact.values)
    for case, fact in zip(cases, facts, strict=True):
        problems += _judge_one(classes, case, fact, held)
    return problems


def class_lines(rows: Sequence[ClassRow], show: int = 40) -> list[str]:
    """Return the classes below each other, one line each."""
    width = max(len(row.name) for row in [*rows, ClassRow("class", "", 0, 0, 0, 0)])
    lines = [f"{'class':{width}}  value      voxels    share  cases  missing in"]
    for row in rows[:show]:
        lines.append(
            f"{row.name:{width}}  {row.value:>5}  {row.voxels:10}  {row.share:7.3%}  {row.cases:5}"
            f"  {row.missing:10}"
        )
    more = [f"... and {len(rows) - show} more classes"] if len(rows) > show else []
    return lines + more


def _judge_one(
    classes: Sequence[str], case: Listed, fact: Facts, held: Counter[int]
) -> list[Problem]:
    assert fact.volume is not None  # volumes only are judged here
    drawn = fact.values - {0}
    is_one = len(classes) == 1
    if len(drawn) > 1 if is_one else (fact.volume.is_cut or max(drawn, default=0) > len(classes)):
        other = "values above 255 or between" if fact.volume.is_cut else _list(fact.values)
        text = f"expected 0 to {len(classes)} (one per class), found {other}: relabel the mask"
        return [Problem("error", "mask values", case.name, text)]
    if is_one:
        usual = max((v for v in held if v), key=lambda v: held[v], default=1)
        text = f"found {_list(fact.values)}, most masks hold 0 and {usual}: taken as the same class"
        differ = [Problem("note", "mask values differ", case.name, text)]
        return [] if drawn <= {usual} else differ
    missing = [n for k, n in enumerate(classes, start=1) if held[k] and k not in fact.values]
    if not missing or fact.values == {0}:
        return []  # a mask that is empty altogether is told elsewhere
    return [Problem("note", "class missing", case.name, f"no voxel of {', '.join(missing)}")]


def _list(values: frozenset[int]) -> str:
    return ", ".join(str(value) for value in sorted(values)[:8])


def summarise_volumes(facts: Sequence[Facts], classes: Sequence[str]) -> dict[str, Any]:
    """Return ranges and counts as JSON values, without the names of classes and cases."""
    known = [fact.spacing for fact in facts if len(fact.spacing) == 3]
    ends = np.array([(f.volume.low, f.volume.high) for f in facts if f.volume is not None])
    rows = [asdict(row) for row in class_rows(classes, facts)]
    return {
        "sides": ranges([fact.shape for fact in facts]),
        "spacing_mm": ranges(known),
        "without_spacing": len(facts) - len(known),
        "low": ranges(ends[:, :1])[0],
        "high": ranges(ends[:, 1:])[0],
        "spread": ranges(ends[:, 1:] - ends[:, :1])[0],
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


def ranges(values: Any) -> list[dict[str, float]]:
    """Return least, median and most of each column, rounded; nothing without values."""
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
