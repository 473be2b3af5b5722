"""Scores as text: one line for all cases, for every site, source and class, and the worst cases."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from feda3i.metrics import summarise, summarise_by

Row = Mapping[str, Any]
_SHOWN = ("dice", "iou", "hd95", "assd")


def score_lines(rows: Sequence[Row], unit: str, classes: Sequence[str] = ()) -> list[str]:
    """Return a table: all rows first, then one line per site, per source and per class.

    Rows are those of ``score_cases``; lines per class appear if ``classes`` names several.
    """
    parts = {"all": summarise(rows)}
    for column in ("site", "source"):
        names = [row.get(column, "") for row in rows]
        is_new = column == "site" or names != [row.get("site", "") for row in rows]
        if len(set(names)) > 1 and is_new:  # sources may be the sites
            found = summarise_by(rows, column)
            parts |= {f"{column} {name or '(none)'}": s for name, s in found.items()}
    if len(classes) > 1:
        by_class = summarise_by(rows, "class")
        parts |= {f"class {classes[int(k) - 1]}": s for k, s in by_class.items()}
    width = max(len(name) for name in parts)
    lines = [f"{'':{width}}  cases    dice     iou    hd95    assd", *_rows_of(parts, width)]
    cases = int(parts["all"]["cases"])
    missing = cases - int(parts["all"].get("hd95_counted", cases))
    left = f", {missing} without a distance (one mask empty) left out" if missing else ""
    lines.append(f"hd95 and assd in {unit}; means over cases{left}")
    return lines


def worst_lines(rows: Sequence[Row], unit: str, show: int = 5) -> list[str]:
    """Return the cases with the lowest Dice, worst first."""
    lines = [f"the {min(show, len(rows))} worst by Dice"]
    worst = sorted(rows, key=lambda row: (row["dice"], str(row["case"])))[:show]
    width = max((len(str(row["case"])) for row in worst), default=0)
    for row in worst:
        where = row.get("site") or row.get("source") or ""
        empty = {"prediction": "nothing found", "truth": "mask is empty", "both": "both empty"}
        why = empty.get(row["empty"]) or f"hd95 {row['hd95']:.1f} {unit.split(' ')[0]}"
        lines.append(f"  {row['case']:{width}}  dice {row['dice']:.4f}  {why:20}  {where}".rstrip())
    return lines


def _rows_of(parts: Mapping[str, Mapping[str, float | int]], width: int) -> list[str]:
    return [
        f"{name:{width}}  {part['cases']:5}"
        + "".join(f"  {_number(part.get(score)):>6}" for score in _SHOWN)
        for name, part in parts.items()
    ]


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.4f}" if value < 10 else f"{value:.2f}"
