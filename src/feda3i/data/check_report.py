"""The doctor's report: text for the console, and a summary without names or pixels to mail."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from feda3i.data.case_facts import table_lines
from feda3i.data.checkup import Checkup
from feda3i.data.volume_summary import class_lines, ranges, summarise_volumes, summary_lines
from feda3i.reading.problems import errors_of, report_lines
from feda3i.reading.usage import usage_lines

_MOST_SIZES = 10  # that are listed
_NO_SHARE = {"min": 0.0, "median": 0.0, "max": 0.0}


def summarise_checkup(report: Checkup) -> dict[str, Any]:
    """Return counts and shares as JSON values: no file names, no folder names, no pixels.

    Sources are numbered, because folder names may be names of people or places.
    """
    shares = np.array([fact.share for fact in report.facts])
    across = sum(report.split[i] != report.split[j] for i, j in report.duplicates)
    kinds = Counter((p.level, p.kind) for p in report.problems)
    rows = report.side_by_side()
    sizes = [row.train for row in rows.values() if row.train]
    summary: dict[str, Any] = {
        "fit_for_training": report.is_fit,
        "cases": {"train": report.split.count("train"), "test": report.split.count("test")},
        "split": "as the folder says" if report.is_split_given else "drawn, 8:2 in each source",
        "folders": {f"folder-{n}": size for n, size in enumerate(sizes, start=1)},
        "side_by_side": {
            f"folder-{n}": asdict(row) for n, row in enumerate(rows.values(), start=1)
        },
        "files": {
            "images": sum(u.images for u in report.usage),
            "masks": sum(u.masks for u in report.usage),
            "not_used": sum(u.unused for u in report.usage),
        },
        "classes": len(report.classes),
        "channels": report.channels,
        "sizes": {
            "x".join(str(side) for side in shape): count
            for shape, count in Counter(f.shape for f in report.facts).most_common(_MOST_SIZES)
        },
        "more_sizes": max(0, len({fact.shape for fact in report.facts}) - _MOST_SIZES),
        "mask_values": _few(sorted({value for fact in report.facts for value in fact.values})),
        "empty_masks": int((shares == 0).sum()),
        "full_masks": int((shares == 1).sum()),
        "foreground_share": next(iter(ranges(shares[:, None])), _NO_SHARE),
        "near_duplicates": {"pairs": len(report.duplicates), "across_train_and_test": across},
        "problems": [
            {"level": level, "kind": kind, "count": count}
            for (level, kind), count in sorted(kinds.items())
        ],
    }
    if report.are_volumes:
        summary["volumes"] = summarise_volumes(report.facts, report.classes)
    if report.cost is not None:
        summary["cost_per_round"] = {
            "images_per_second": round(report.cost.images_per_second, 1),
            "epochs": report.cost.epochs,
            "minutes_largest_folder": round(report.cost.minutes(max(sizes, default=0)), 2),
            "minutes_per_100_cases": round(report.cost.minutes(100), 2),
            "megabytes_per_site": round(report.cost.megabytes, 2),
        }
    return summary


def summary_text(summary: dict[str, Any]) -> str:
    """Return the summary as lines that can be pasted into a mail."""
    cases, share, twins = (summary[k] for k in ("cases", "foreground_share", "near_duplicates"))
    sizes = ", ".join(f"{count} of {size}" for size, count in summary["sizes"].items())
    sizes += f", and {summary['more_sizes']} more sizes" if summary["more_sizes"] else ""
    if "volumes" in summary:
        sizes = "volumes"
    files = summary["files"]
    folders = ", ".join(str(count) for count in summary["folders"].values())
    lines = [
        f"fit for training   {'yes' if summary['fit_for_training'] else 'NO'}",
        f"cases              {cases['train']} train, {cases['test']} test ({summary['split']})",
        f"per folder         {folders} training cases",
        f"files              {files['images']} images and {files['masks']} masks used, "
        f"{files['not_used']} not used",
        f"images             {summary['channels']} channel(s); {sizes}",
        *(summary_lines(summary["volumes"]) if "volumes" in summary else ()),
        f"mask values        {summary['mask_values']} for {summary['classes']} class(es)",
        f"foreground         median {share['median']:.1%}, from {share['min']:.1%} to "
        f"{share['max']:.1%}; {summary['empty_masks']} empty, {summary['full_masks']} full masks",
        f"near-duplicates    {twins['pairs']} pairs, {twins['across_train_and_test']} of them "
        "across train and test"
        + (
            ", which flatters the score: remove one of each, or give both one group (data.group)"
            if twins["across_train_and_test"]
            else ""
        ),
    ]
    if "cost_per_round" in summary:
        cost = summary["cost_per_round"]
        shown = "patches" if "volumes" in summary else "images"
        lines.append(
            f"one round          {cost['minutes_largest_folder']:.1f} min in the largest folder "
            f"({cost['epochs']} epochs, {cost['images_per_second']:.1f} {shown}/s here, "
            f"{cost['minutes_per_100_cases']:.1f} min per 100 cases), "
            f"{cost['megabytes_per_site']:.1f} MB per site, both ways"
        )
    for item in summary["problems"]:
        lines.append(f"{item['level']:18} {item['kind']}: {item['count']}")
    return "\n".join(lines)


def report_text(report: Checkup) -> str:
    """Return the summary and, below it, the names, which stay at the site."""
    lines = [str(report.root), summary_text(summarise_checkup(report)), ""]
    lines += usage_lines(report.usage) if report.usage else []
    lines += ["", *table_lines(report.side_by_side())]
    if report.are_volumes:
        lines += ["", *class_lines(report.classes, report.facts)]
    lines += _named_lines(report)
    if report.commands:
        when = "commands" if report.is_fit else "commands, once the errors are gone"
        lines += ["", when, *(f"  {line}" for line in report.commands)]
    return "\n".join(lines)


def _named_lines(report: Checkup) -> list[str]:
    """Return the findings with names, and the first error in full."""
    if not report.problems:
        return []
    lines = ["", "contains file names; do not share"]
    lines += [f"  {line}" for line in report_lines(report.problems)]
    errors = errors_of(report.problems)
    if report.are_volumes:
        first = {(p.level, p.kind): p for p in reversed(report.problems)}
        shown = [f"  {p.kind}, {p.name}: {p.text}" for _, p in sorted(first.items())]
        lines += ["the first of each kind", *shown]
    elif errors:
        lines.append(f"first error: {errors[0].name}: {errors[0].text}")
    return lines


def _few(values: list[int]) -> str:
    text = ", ".join(str(value) for value in values[:6])
    return text if len(values) <= 6 else f"{text}, ... ({len(values)} values)"
