"""What ``check`` found, as text: a summary to mail without names or pixels, and all of it."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from feda3i.data.checkup import Checkup
from feda3i.data.division import home
from feda3i.reading.problems import errors_of, report_lines
from feda3i.reading.usage import IMAGE, MASK, not_used, usage_lines

_MOST_SIZES, _MOST_VALUES = 10, 6  # that are listed


def summary_text(report: Checkup) -> str:
    """Return counts and shares as lines: no file names, no folder names, no pixels."""
    split, shares = report.split, [fact.share for fact in report.facts] or [0.0]
    across = sum(split[i] != split[j] for i, j in report.duplicates)
    advice = ", which flatters the score: remove one of each, or give both one group (data.group)"
    values = sorted({value for fact in report.facts for value in fact.values})
    few = ", ".join(map(str, values[:_MOST_VALUES]))
    few += f", ... ({len(values)} values)" if len(values) > _MOST_VALUES else ""
    folders = Counter(home(c) for c, s in zip(report.cases, split, strict=True) if s == "train")
    sites = ", ".join(str(count) for _, count in sorted(folders.items()))
    files = Counter(report.fates.values())
    lines = [
        f"fit for training   {'yes' if report.is_fit else 'NO'}",
        f"cases              {split.count('train')} train, {split.count('test')} test "
        f"({'as the folder says' if report.is_split_given else 'drawn, 8:2 in each source'})",
        f"per folder         {sites} training cases",
        f"files              {files[IMAGE]} images and {files[MASK]} masks used, "
        f"{not_used(files)} not used",
        f"images             {max((f.channels for f in report.facts), default=1)} channel(s); "
        f"{_sizes(report)}",
        f"mask values        {few} for {len(report.classes)} class(es)",
        f"foreground         median {np.median(shares):.1%}, from {min(shares):.1%} to "
        f"{max(shares):.1%}; {sum(fact.share == 0 for fact in report.facts)} empty, "
        f"{sum(fact.share == 1 for fact in report.facts)} full masks",
        f"same image twice   {len(report.duplicates)} pairs, {across} of them "
        f"across train and test{advice if across else ''}",
    ]
    kinds = Counter((p.level, p.kind) for p in report.problems)
    lines += [f"{level:18} {kind}: {count}" for (level, kind), count in sorted(kinds.items())]
    return "\n".join(lines)


def report_text(report: Checkup) -> str:
    """Return the summary and, below it, the names, which stay at the site."""
    lines = [str(report.root), summary_text(report), ""]
    lines += usage_lines(report.fates) if report.fates else []
    if report.problems:
        lines += ["", "contains file names; do not share"]
        lines += [f"  {line}" for line in report_lines(report.problems)]
    for first in errors_of(report.problems)[:1]:
        lines.append(f"first error: {first.name}: {first.text}")
    if report.commands:
        when = "commands" if report.is_fit else "commands, once the errors are gone"
        lines += ["", when, *(f"  {line}" for line in report.commands)]
    return "\n".join(lines)


def _sizes(report: Checkup) -> str:
    shapes = [fact.shape for fact in report.facts]
    if shapes and len(shapes[0]) == 3:
        spacing = [fact.spacing for fact in report.facts if fact.spacing]
        known = f", {_ranges(spacing)} mm" if spacing else ""
        return f"{_ranges(shapes)} voxels (slice x row x column){known}"
    counts = Counter(shapes)
    found = [f"{n} of {'x'.join(map(str, s))}" for s, n in counts.most_common(_MOST_SIZES)]
    more = len(counts) - _MOST_SIZES
    return ", ".join([*found, *([f"and {more} more sizes"] if more > 0 else [])])


def _ranges(rows: Sequence[Sequence[float]]) -> str:
    ends = zip(np.min(rows, axis=0), np.max(rows, axis=0), strict=True)
    return " x ".join(f"{a:.4g}" if a == b else f"{a:.4g}-{b:.4g}" for a, b in ends)
