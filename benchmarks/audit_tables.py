"""Tables of benchmarks/audit.py: how near the audit comes to what annotators really did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from feda3i.audit.interval import beside_middle
from scipy.stats import spearmanr

from feda3i.audit.findings import SiteFinding
from feda3i.audit.judge import SiteNumbers, judge_sites, robust_sd

TOLD = 3.0
"""Pixels at 256 from which a sign must be right; also the audit's margin at this scale."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """One federation, judged: true offset beside the middle, finding, raw offset and true mu."""

    row: Row
    true: Any
    mu: Any
    findings: list[SiteFinding]

    @property
    def judged(self) -> list[int]:
        """Return the sites that have a number."""
        return [k for k, one in enumerate(self.findings) if one.relative is not None]


def judged(row: Row, most: int | None = None) -> Place:
    """Judge a row as ``feda3i audit`` does, with the first so many cases of each site."""
    sites = {name: _numbers(cases[:most]) for name, cases in row["cases"].items()}
    _, findings = judge_sites(sites, class_name="object", unit="px", margin=TOLD, seed=row["seed"])
    mu = np.array([row["truth"][name][0] for name in sites])
    return Place(row, beside_middle(mu), mu, findings)


def _numbers(cases: Sequence[Sequence[float | None]]) -> SiteNumbers:
    values = np.array([[math.nan if v is None else v for v in case] for case in cases])
    offsets = values[np.isfinite(values[:, 0]), 0]
    return SiteNumbers(
        cases=len(values),
        measured=len(offsets),
        offsets={"contour": offsets},
        wobble=float(np.nanmedian(values[:, 1])),
        spread=robust_sd(offsets),
        found=len(offsets) / len(values),
        dice=float(np.nanmedian(values[:, 2])),
    )


def figures(places: Sequence[Place]) -> dict[str, str]:
    """Return the measures over some places."""
    found = [[float(p.findings[k].relative or 0) for k in p.judged] for p in places]
    true = [p.true[p.judged] for p in places]
    raw = [[float(p.findings[k].offset or 0) for k in p.judged] for p in places]
    mu = [p.mu[p.judged] for p in places]
    inside = [
        float(p.findings[k].low or 0) <= p.true[k] <= float(p.findings[k].high or 0)
        for p in places
        for k in p.judged
    ]
    verdicts = [(one, t) for p in places for one, t in zip(p.findings, p.true, strict=True)]
    sided = [(o.verdict == "larger") == (t > 0) for o, t in verdicts if o.verdict in SIDES]
    far = [o.verdict in SIDES for o, t in verdicts if abs(t) > TOLD]
    errors = np.concatenate([np.abs(np.array(f) - t) for f, t in zip(found, true, strict=True)])
    return {
        "seeds": ", ".join(str(p.row["seed"]) for p in places),
        "Spearman": ", ".join(f"{_rho(f, t):.2f}" for f, t in zip(found, true, strict=True)),
        "sign": _share(_signs(found, true)),
        "raw sign": _share(_signs(raw, mu)),
        "error, px": f"{errors.mean():.1f}",
        "coverage": _share(inside),
        "told": _share(far),
        "wrongly": f"{len(sided) - sum(sided)} of {len(sided)}",
        "Dice": ", ".join(f"{_dice(p):.2f}" for p in places),
    }


SIDES = ("larger", "smaller")


def _rho(found: Sequence[float], true: Any) -> float:
    return float(spearmanr(found, true).statistic) if len(found) > 2 else math.nan


def _signs(found: Iterable[Sequence[float]], true: Iterable[Any]) -> list[bool]:
    pairs = [
        (f, t) for fs, ts in zip(found, true, strict=True) for f, t in zip(fs, ts, strict=True)
    ]
    return [(f > 0) == (t > 0) for f, t in pairs if abs(t) > TOLD]


def _share(hits: Sequence[bool]) -> str:
    return f"{np.mean(hits):.2f} ({len(hits)})" if len(hits) else "-"


def _dice(place: Place) -> float:
    values = [case[2] for cases in place.row["cases"].values() for case in cases]
    return float(np.mean([v for v in values if v is not None]))


def _table(groups: dict[tuple[str, ...], list[Place]], head: Sequence[str]) -> list[str]:
    measured = {key: figures(places) for key, places in groups.items()}
    columns = [*head, *next(iter(measured.values()))]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join([*key, *cells.values()])} |" for key, cells in measured.items()]
    return lines


def _wobble(rows: Sequence[Row]) -> str:
    """Return Spearman of the measured wobble with the annotators' sigma."""
    found = []
    for row in rows:
        names = list(row["cases"])
        wobble = [_numbers(row["cases"][name]).wobble for name in names]
        found.append(_rho(wobble, [row["truth"][name][1] for name in names]))
    return ", ".join(f"{one:.2f}" for one in found)


def tables(rows: list[Row]) -> str:
    """Return the tables as Markdown."""
    simulated = sorted((r for r in rows if "sites" in r), key=lambda r: (r["data"], r["setting"]))
    human = [row for row in rows if "sites" not in row]
    groups: dict[tuple[str, ...], list[Place]] = {}
    for row in simulated:
        key = (row["data"], row["setting"], str(row["sites"]), row["model"], str(row["steps"]))
        groups.setdefault(key, []).append(judged(row))
    lines = _table(groups, ("data", "setting", "sites", "masks were", "steps")) if groups else []
    unseen = [row for row in simulated if row["model"] == "unseen"]
    if unseen:
        few = {(str(n),): [judged(row, n) for row in unseen] for n in (6, 8, 12, 16)}
        lines += ["", "By cases of a site, all simulations:", "", *_table(few, ("cases",))]
        lines += ["", f"Spearman of wobble with sigma: {_wobble(unseen)}"]
    people: dict[tuple[str, ...], list[Place]] = {}
    for row in human:
        people.setdefault((row["setting"], _sizes(row)), []).append(judged(row))
    if people:
        lines += ["", "Real annotators:", "", *_table(people, ("who", "sites x cases"))]
    return "\n".join(lines)


def _sizes(row: Row) -> str:
    sizes = [len(cases) for cases in row["cases"].values()]
    return f"{len(sizes)} x {int(np.median(sizes))}"
