"""From measured cases to verdicts: larger, smaller, in line, or why it cannot be told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from feda3i.audit.case_rows import CaseRow
from feda3i.audit.findings import Overall, SiteFinding, Verdict
from feda3i.audit.interval import (
    beside_middle,
    differ_by_chance,
    interval,
    normal_draws,
    reliability,
    resample,
)
from feda3i.audit.second_opinion import beside, compared, offset_of_cases, with_agreement
from feda3i.quality.measure import Offset
from feda3i.quality.numbers import FloatArray

FEWEST = 6
"""Cases with a contour below which a site is not judged."""
LEAST_FOUND = 0.5
"""Share of a site's cases in which the model must find anything at all."""
LEAST_DICE = 0.5
"""Median agreement of model and masks, over the sites, below which the model is too weak."""
ALIKE = 0.05
"""Sites are told apart if such differences would come by chance less often than this."""


@dataclass(frozen=True)
class SiteNumbers:
    """What is needed of a site to judge it: its cases' offsets, or one offset and its error."""

    cases: int
    measured: int
    offsets: Mapping[str, FloatArray] = field(default_factory=dict)
    """``(case,)`` by estimator, finite; empty if the site sent its offset only."""
    answers: Mapping[str, Offset] = field(default_factory=dict)
    """Offsets of the whole site by estimator; they go before the medians of ``offsets``. If there
    are trusted masks, these offsets start from them."""
    # Medians over cases; share of cases in which the model found something
    wobble: float = math.nan
    spread: float = math.nan
    found: float = math.nan
    dice: float = math.nan


def judge_sites(
    sites: Mapping[str, SiteNumbers],
    *,
    class_name: str,
    unit: str,
    margin: float,
    trusted: Mapping[str, FloatArray] | None = None,
    seed: int = 0,
) -> tuple[Overall, list[SiteFinding]]:
    """Compare all sites of one class with each other, or with trusted masks.

    A site nearer to the middle of all sites than the margin is in line with them. ``trusted`` has
    offsets of trusted masks by estimator; zero is then where those were drawn.
    """
    estimators = _estimators(sites)
    first = estimators[0]
    why_not = {name: _unfit(one, first) for name, one in sites.items()}
    weak = _weak(sites, first)
    if weak:
        why_not = dict.fromkeys(why_not, weak)
    rated = [name for name, reason in why_not.items() if not reason]
    if len(rated) < 2 and trusted is None:
        alone = f"{len(rated)} site could be measured: there is no other site to compare it with"
        why_not = {name: reason or alone for name, reason in why_not.items()}
        rated = []
    judged = _Judged(rated, sites, first, trusted, seed, class_name) if rated else None
    more = {name: _by(name, sites, trusted) for name in estimators[1:]}
    findings = []
    for name, one in sites.items():
        found = SiteFinding(
            site=name,
            class_name=class_name,
            cases=one.cases,
            measured=one.measured,
            verdict="cannot tell",
            reason=why_not[name],
            wobble=_number(one.wobble),
            spread=_number(one.spread),
        )
        if judged is not None and not why_not[name]:
            found = judged.complete(found, rated.index(name), unit, margin)
        others = {key: by[name] for key, by in more.items()}
        findings.append(compared(found, first, others, margin))
    overall = _overall(class_name, judged, len(sites), weak, trusted is not None)
    return with_agreement(overall, findings, estimators), findings


def _estimators(sites: Mapping[str, SiteNumbers]) -> list[str]:
    found = [name for one in sites.values() for name in (*one.offsets, *one.answers)]
    return list(dict.fromkeys(found)) or ["contour"]


def _by(
    name: str, sites: Mapping[str, SiteNumbers], trusted: Mapping[str, FloatArray] | None
) -> dict[str, Offset]:
    """Return what another estimator says of every site, beside the middle or the trusted masks."""
    empty = np.zeros(0)
    if any(name in one.answers for one in sites.values()):
        found = {site: one.answers[name] for site, one in sites.items()}
        return beside(found, None if trusted is None else 0.0)
    found = {site: offset_of_cases(one.offsets.get(name, empty)) for site, one in sites.items()}
    return beside(found, None if trusted is None else _median(trusted.get(name, empty)))


def site_numbers(rows: Sequence[CaseRow]) -> SiteNumbers:
    """Return all that is needed of one site's rows of one class."""
    drawn = [row for row in rows if row.is_drawn]
    names = rows[0].offsets if rows else {}
    offsets = {name: _finite([row.offsets[name] for row in drawn]) for name in names}
    first = next(iter(offsets.values()), np.zeros(0))
    found = [row.is_found for row in drawn if row.is_found is not None]
    return SiteNumbers(
        cases=len(rows),
        measured=len(first),
        offsets=offsets,
        wobble=_median(_finite([row.wobble for row in drawn])),
        spread=robust_sd(first),
        found=float(np.mean(found)) if found else math.nan,
        dice=_median(_finite([row.dice for row in drawn])),
    )


def robust_sd(values: FloatArray) -> float:
    """Return the standard deviation of a normal distribution with the same quartiles."""
    if len(values) < 2:
        return math.nan
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.349


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.8)
    '80 %'
    """
    return f"{100 * share:.0f} %"


class _Judged:
    """Offsets of the rated sites, resampled."""

    def __init__(
        self,
        rated: Sequence[str],
        sites: Mapping[str, SiteNumbers],
        first: str,
        trusted: Mapping[str, FloatArray] | None,
        seed: int,
        scope: str,
    ) -> None:
        here = [sites[name] for name in rated]
        self.is_trusted = trusted is not None
        self.offset, draws = _draw(here, first, seed, f"{scope} {first}")
        self.error = draws.std(axis=0, ddof=1)
        if trusted is None:
            self.relative, moved = beside_middle(self.offset), beside_middle(draws)
        elif first in here[0].answers:
            self.relative, moved = self.offset, draws
        else:
            zero = trusted[first]
            self.relative = self.offset - np.median(zero)
            moved = draws - resample([zero], seed, f"{scope} {first} trusted")
        self.ends = interval(moved)
        self.sure = np.where(self.relative > 0, (moved > 0).mean(0), (moved < 0).mean(0))

    def complete(self, finding: SiteFinding, row: int, unit: str, margin: float) -> SiteFinding:
        """Return a site's finding with its numbers and verdict."""
        low, high = self.ends[row]
        relative = float(self.relative[row])
        verdict, reason = _verdict(relative, low, high, margin, unit, self.is_trusted)
        return replace(
            finding,
            verdict=verdict,
            reason=reason,
            offset=float(self.offset[row]),
            relative=relative,
            low=float(low),
            high=float(high),
            sure=float(self.sure[row]),
        )


def _draw(
    here: Sequence[SiteNumbers], name: str, seed: int, scope: str
) -> tuple[FloatArray, FloatArray]:
    if name in here[0].answers:
        found = [one.answers[name] for one in here]
        offset, error = (np.array([getattr(f, key) for f in found]) for key in ("offset", "error"))
        return offset, normal_draws(offset, error, seed, scope)
    values = [one.offsets[name] for one in here]
    return np.array([np.median(v) for v in values]), resample(values, seed, scope)


def _verdict(
    relative: float, low: float, high: float, margin: float, unit: str, is_trusted: bool
) -> tuple[Verdict, str]:
    others = "the trusted masks" if is_trusted else "the middle of the sites"
    ends = f"95 % interval {low:+.1f} to {high:+.1f} {unit}"
    if abs(relative) >= margin and (low > 0 or high < 0):
        side: Verdict = "larger" if relative > 0 else "smaller"
        return side, f"draws {abs(relative):.1f} {unit} {side} than {others}, {ends}"
    if abs(relative) < margin and max(-low, high) <= 2 * margin:
        return "in line", f"within {margin:.1f} {unit} of {others}, {ends}"
    return "cannot tell", "the interval is too wide: too few cases, or they differ too much"


def _unfit(one: SiteNumbers, first: str) -> str:
    """Return why a site cannot be judged; nothing if it can."""
    if first in one.answers:
        return one.answers[first].reason
    if math.isfinite(one.found) and one.found < LEAST_FOUND:
        return f"the model finds nothing in {percent(1 - one.found)} of its cases"
    if one.measured < FEWEST:
        return f"{one.measured} of its {one.cases} cases could be measured, {FEWEST} are needed"
    return ""


def _weak(sites: Mapping[str, SiteNumbers], first: str) -> str:
    """Return why the model cannot be used for any site; nothing if it can, or is not used."""
    if any(first in one.answers for one in sites.values()):
        return ""
    found, dice = (
        _finite([getattr(s, name) for s in sites.values()]) for name in ("found", "dice")
    )
    if len(found) and np.median(found) < LEAST_FOUND:
        missed = percent(1 - float(np.median(found)))
        return f"the model is too weak: it finds nothing in {missed} of the cases"
    if len(dice) and np.median(dice) < LEAST_DICE:
        return (
            f"the model is too weak: its median Dice with the masks is {np.median(dice):.2f}, "
            f"{LEAST_DICE} is needed; train longer or on more cases"
        )
    return ""


def _overall(
    class_name: str, judged: _Judged | None, sites: int, weak: str, is_trusted: bool
) -> Overall:
    if judged is None:
        said = weak or "fewer than two sites could be measured"
        return Overall(class_name, 0, None, None, None, f"cannot tell: {said}")
    offset, error = judged.offset, judged.error
    count = len(offset)
    chance = differ_by_chance(offset, error)
    trust = reliability(offset, error)
    if count < 2:
        said = "one site, compared with trusted masks"
    elif chance > ALIKE:
        said = (
            f"the {count} sites differ no more than by chance (p = {chance:.2f}): no groups can be "
            f"told apart"
        )
        if not is_trusted:
            said += ", nor can anyone tell whether all are wrong in the same way"
    else:
        said = (
            f"{count} of {sites} sites could be measured and do differ (p "
            f"{'< 0.001' if chance < 0.001 else f'= {chance:.3f}'}); {percent(trust)} of the "
            f"spread of their offsets is not chance"
        )
    return Overall(class_name, count, chance, trust, None, said)


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _finite(values: Sequence[float]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
