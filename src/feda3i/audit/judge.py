"""From measured sites to verdicts: larger, smaller, about the same, or why it cannot be told.

Every site is measured twice, by the borders in its images and by a model's contours. The two are
one measurement of it (``quality.combined``), and the sites are compared by a random-effects model
(``quality.site_effects``). The words follow from the interval, from what matters for objects of
this size, and from the test whether the sites differ at all; they never contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import norm

from feda3i.audit.case_rows import CaseRow
from feda3i.audit.findings import Overall, SiteFinding, Verdict
from feda3i.quality import Offset, agreement, combined, rescaled, site_effects, site_offset
from feda3i.quality.effects import WIDE, differ_by_chance
from feda3i.quality.measure import LEAST_AGREEMENT
from feda3i.quality.numbers import FloatArray

FEWEST = 6
"""Cases with a contour below which a site is not compared with a model."""
LEAST_FOUND = 0.5
"""Share of a site's cases in which the model must find anything at all."""
LEAST_DICE = 0.5
"""Median agreement of model and masks, over the sites, below which the model is too weak."""
ALIKE = 0.05
"""Sites are told apart if such differences would come by chance less often than this."""
MATTERS = 0.05
"""Part of the objects' inner radius by which contours must differ to matter: Dice falls as much."""
EDGES, CONTOUR = "edges", "contour"


@dataclass(frozen=True)
class SiteNumbers:
    """What is needed of a site to judge it."""

    cases: int
    answers: Mapping[str, Offset] = field(default_factory=dict)
    """Offsets of the site by estimator, in pixels at 256, or why there is none."""
    # Medians over cases, in the audit's unit
    wobble: float = math.nan
    spread: float = math.nan
    dice: float = math.nan


@dataclass(frozen=True)
class Scale:
    """The unit of an audit, and what a pixel at 256 is in it."""

    unit: str = "px"
    pixel: float = 1.0
    margin: float | None = None
    """Differences below this, in the unit, do not matter; by default a part of the radius."""

    @property
    def sign(self) -> str:
        """Return the unit as a sentence has it."""
        return "mm" if self.unit == "mm" else "px"


def judge_sites(
    sites: Mapping[str, SiteNumbers],
    *,
    class_name: str,
    scale: Scale,
    trusted: Mapping[str, Offset] | None = None,
) -> tuple[Overall, list[SiteFinding]]:
    """Compare all sites of one class with each other, or with trusted masks.

    ``trusted`` has the offsets of trusted masks by estimator; zero is then where those were drawn.
    """
    names, weak = list(sites), _weak(sites)
    nothing = Offset.unknown(0, "it was not asked")
    by = {
        name: [one.answers.get(name, nothing) for one in sites.values()]
        for name in (EDGES, CONTOUR)
    }
    if weak:
        by[CONTOUR] = [Offset.unknown(one.cases, weak) for one in by[CONTOUR]]
    zero = {} if trusted is None else trusted
    both = combined(by[EDGES], by[CONTOUR], zero.get(EDGES), zero.get(CONTOUR))
    middle, b_error = _zero(both, trusted is not None, zero)
    known = np.array([one.is_known for one in both])
    offset = np.array([one.offset for one in both])
    error = np.array([one.error for one in both])
    chance = differ_by_chance(offset[known], error[known]) if known.any() else 1.0
    is_relative = trusted is None
    is_alike = is_relative and chance > ALIKE
    margin = _margin(both, scale)
    findings = []
    for k, name in enumerate(names):
        one = sites[name]
        found = SiteFinding(
            site=name,
            class_name=class_name,
            cases=one.cases,
            measured=max((by[key][k].cases for key in by if by[key][k].is_known), default=0),
            verdict="cannot tell",
            reason=_why_not(both[k], by, k, known, is_relative, zero),
            wobble=_number(one.wobble),
            spread=_number(one.spread),
            by_estimator=_each(by, k, both, middle, scale),
            silent={key: by[key][k].reason for key in by if by[key][k].reason != nothing.reason},
        )
        found = replace(found, silent={key: why for key, why in found.silent.items() if why})
        if not found.reason:
            own = _own_error(error, known, k) if is_relative else math.hypot(error[k], b_error)
            found = _told(found, offset[k] - middle, own, margin, scale, is_alike, is_relative)
        findings.append(found)
    overall = _overall(class_name, both, by, chance, trusted, scale, weak)
    return overall, findings


def site_numbers(rows: Sequence[CaseRow], scale: Scale, edges: Offset | None = None) -> SiteNumbers:
    """Return all that is needed of one site's rows of one class."""
    drawn = [row for row in rows if row.is_drawn]
    answers = {} if edges is None else {EDGES: edges}
    gaps = [row.offsets[CONTOUR] for row in drawn if CONTOUR in row.offsets]
    if any(CONTOUR in row.offsets for row in rows):
        answers[CONTOUR] = rescaled(_by_model(drawn, gaps), 1 / scale.pixel)
    first = gaps or [row.offsets[EDGES] for row in drawn if EDGES in row.offsets]
    return SiteNumbers(
        cases=len(rows),
        answers=answers,
        wobble=_median(_finite([row.wobble for row in drawn])),
        spread=robust_sd(_finite(first)),
        dice=_median(_finite([row.dice for row in drawn])),
    )


def _by_model(drawn: Sequence[CaseRow], gaps: Sequence[float]) -> Offset:
    """Return the median over cases, or why a model cannot tell."""
    known = _finite(gaps)
    found = [row.is_found for row in drawn if row.is_found is not None]
    share = float(np.mean(found)) if found else 1.0
    if share < LEAST_FOUND:
        return Offset.unknown(
            len(known), f"the model finds nothing in {percent(1 - share)} of its cases"
        )
    if len(known) < FEWEST:
        few = f"{len(known)} of its {len(drawn)} drawn cases could be measured, {FEWEST} are needed"
        return Offset.unknown(len(known), few)
    offset, error = site_offset(known).tolist()
    return Offset(offset, max(error, 1e-3), len(known))


def _zero(
    both: Sequence[Offset], is_trusted: bool, zero: Mapping[str, Offset]
) -> tuple[float, float]:
    """Return where zero is and its error: where trusted masks lie, or the mean of the sites."""
    if is_trusted:
        border = zero.get(EDGES)
        if border is not None and border.is_known:
            return border.offset, border.error
        model = zero.get(CONTOUR)
        return 0.0, model.error if model is not None and model.is_known else math.nan
    weights = _weights(both)
    offset = np.array([one.offset if one.is_known else 0.0 for one in both])
    return float(weights @ offset), 0.0


def _weights(both: Sequence[Offset]) -> FloatArray:
    """Return the weights of the sites in their mean, those of the random-effects model."""
    tau = site_effects(both).tau
    raw = np.array([1 / (one.error**2 + tau**2) if one.is_known else 0.0 for one in both])
    return np.asarray(raw / max(raw.sum(), 1e-12))


def _own_error(error: FloatArray, known: FloatArray, k: int) -> float:
    """Return the error of a site's offset from the mean of all; it is a part of that mean."""
    share = 1 / max(int(known.sum()), 1)
    others = float(np.square(error[known]).sum() - error[k] ** 2)
    return math.sqrt((1 - share) ** 2 * error[k] ** 2 + share**2 * others)


def _told(
    found: SiteFinding,
    away: float,
    error: float,
    margin: float,
    scale: Scale,
    is_alike: bool,
    is_relative: bool,
) -> SiteFinding:
    """Return a finding with its numbers, in the audit's unit, and its verdict."""
    by, low, high = (scale.pixel * v for v in (away, away - WIDE * error, away + WIDE * error))
    limit, unit = scale.pixel * margin, scale.sign
    others = "the others" if is_relative else "the trusted masks"
    near, far = sorted((abs(low), abs(high)))
    ends = f"{abs(by):.1f} {unit} ({near:.1f} to {far:.1f})"
    side: Verdict = "larger" if by > 0 else "smaller"
    verdict: Verdict
    if (low > 0 or high < 0) and not is_alike:
        if abs(by) >= limit:
            verdict, said = side, f"draws {ends} {side} than {others}"
        else:
            verdict, said = "slightly", f"draws slightly {side} than {others}, {ends}"
    elif max(-low, high) <= 2 * limit or (is_alike and max(-low, high) <= 4 * limit):
        verdict = "about the same"
        said = f"draws about the same as {others}: within {far:.1f} {unit}"
    else:
        verdict = "cannot tell"
        said = (
            f"{low:+.1f} to {high:+.1f} {unit}: too few cases, or they differ too much from each "
            f"other"
        )
    return replace(
        found,
        verdict=verdict,
        reason=said,
        relative=by,
        low=low,
        high=high,
        sure=float(norm.cdf(abs(away) / error)) if error > 0 else 1.0,
    )


def _why_not(
    both: Offset,
    by: Mapping[str, Sequence[Offset]],
    k: int,
    known: FloatArray,
    is_relative: bool,
    zero: Mapping[str, Offset],
) -> str:
    """Return why a site cannot be judged at all; nothing if it can."""
    if not both.is_known:
        return "; ".join(dict.fromkeys(by[key][k].reason for key in by if by[key][k].reason))
    if is_relative and known.sum() < 2:
        return "one site could be measured: there is no other site to compare it with"
    if not is_relative and not any(one.is_known for one in zero.values()):
        return "; ".join(f"trusted masks: {one.reason}" for one in zero.values()) or "trusted masks"
    return ""


def _each(
    by: Mapping[str, Sequence[Offset]],
    k: int,
    both: Sequence[Offset],
    middle: float,
    scale: Scale,
) -> dict[str, tuple[float, float, float] | None]:
    """Return what each estimator says beside the same zero, with its 95 % interval."""
    found: dict[str, tuple[float, float, float] | None] = {}
    for key, answers in by.items():
        if not any(one.is_known for one in answers):
            continue
        one = answers[k]
        if not one.is_known:
            found[key] = None
            continue
        # An estimator's own constant is no opinion about any site.
        pairs = [(a, b) for a, b in zip(answers, both, strict=True) if a.is_known and b.is_known]
        shift = float(np.mean([b.offset - a.offset for a, b in pairs]))
        away = one.offset + shift - middle
        ends = (away, away - WIDE * one.error, away + WIDE * one.error)
        found[key] = (ends[0] * scale.pixel, ends[1] * scale.pixel, ends[2] * scale.pixel)
    return found


def _margin(both: Sequence[Offset], scale: Scale) -> float:
    """Return in pixels at 256 by how much contours must differ to matter."""
    if scale.margin is not None:
        return scale.margin / scale.pixel
    radii = [one.radius for one in both if one.radius > 0]
    return MATTERS * float(np.median(radii)) if radii else 2.0


def _weak(sites: Mapping[str, SiteNumbers]) -> str:
    """Return why the model cannot be used for any site; nothing if it can, or is not used."""
    dice = _finite([one.dice for one in sites.values()])
    if len(dice) and np.median(dice) < LEAST_DICE:
        return (
            f"the model is too weak: its median Dice with the masks is {np.median(dice):.2f}, "
            f"{LEAST_DICE} is needed; train longer or on more cases"
        )
    return ""


def _overall(
    class_name: str,
    both: Sequence[Offset],
    by: Mapping[str, Sequence[Offset]],
    chance: float,
    trusted: Mapping[str, Offset] | None,
    scale: Scale,
    weak: str,
) -> Overall:
    effects = site_effects(both, None if trusted is None else trusted.get(EDGES))
    count = sum(one.is_known for one in both)
    said = []
    if count == 0 or (count < 2 and trusted is None):
        said.append(f"cannot tell: {weak or 'fewer than two sites could be measured'}")
    elif count < 2:
        said.append("one site, compared with trusted masks")
    elif chance > ALIKE:
        more = "" if trusted else ", nor can anyone tell whether all are wrong in the same way"
        said.append(f"the {count} sites differ no more than by chance (p = {chance:.2f}){more}")
    else:
        p = "< 0.001" if chance < 0.001 else f"= {chance:.3f}"
        spread = scale.pixel * effects.tau
        said.append(
            f"{count} of {len(both)} sites could be measured and do differ (p {p}), typically by "
            f"{spread:.1f} {scale.sign}"
        )
    if trusted is not None and (border := trusted.get(EDGES)) is not None:
        told = (
            f"{scale.pixel * border.offset:+.1f} {scale.sign} (standard error "
            f"{scale.pixel * border.error:.1f}) outside the border in their images"
            if border.is_known
            else f"cannot be told from the images: {border.reason}"
        )
        said.append(f"b0 of the trusted masks: {told}")
    if effects.reason and count > 1:
        said.append(f"nobody should redraw by this: {effects.reason}")
    rho = agreement(by[EDGES], by[CONTOUR])
    if math.isfinite(rho):
        kind = "agree" if rho >= LEAST_AGREEMENT else "agree badly"
        said.append(f"edges in the images and the model's contours {kind} (Spearman {rho:.2f})")
    agreed = rho if math.isfinite(rho) else None
    spread_told = scale.pixel * effects.tau if count > 1 else None
    return Overall(class_name, count, chance, spread_told, agreed, "; ".join(said))


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


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _finite(values: Sequence[float]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
