"""From measured sites to verdicts: larger, smaller, about the same, or why it cannot be told.

Edges in the images and a model's contours are one measurement of a site (``quality.combined``);
words follow from its interval, from what matters for objects of this size, and from the test
whether the sites differ at all. In pixels at 256; findings are in the audit's unit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.stats import norm

from feda3i.audit.case_rows import CaseRow
from feda3i.quality import Effects, Offset, combined, rescaled, site_effects, site_offset
from feda3i.quality.effects import WIDE, differ_by_chance
from feda3i.quality.numbers import FloatArray
from feda3i.quality.objects import ObjectFinding

FEWEST = 6  # cases with a contour, for a comparison with a model
LEAST_FOUND = 0.5  # share of a site's cases in which the model must find anything
LEAST_DICE = 0.5  # of model and masks, median over the sites: below it the model is too weak
ALIKE = 0.05  # sites are told apart if chance makes such differences less often than this
MATTERS = 0.05  # of the objects' inner radius: from here on a difference matters, as Dice falls
EDGES, CONTOUR = "edges", "contour"
ESTIMATORS = (EDGES, CONTOUR)
NOT_ASKED = Offset.unknown(0, "it was not asked")

Verdict = Literal["larger", "smaller", "slightly", "about the same", "cannot tell"]

RELATIVE = (
    "The answer is relative: sites are compared with each other, zero is their mean, and nobody "
    "can tell whether all of them draw too large or too small. With --trusted masks the answer "
    "becomes absolute."
)
ABSOLUTE = (
    "The answer is absolute: sites are compared with trusted masks, zero is where those were drawn."
)
COVERED = (
    "An interval (95 %) covers the chance of which cases a site happens to have, and what the two "
    "estimators differ by: borders in the images and a model's contours share no evidence. It "
    "does not cover a mistake that both make."
)


def sign_of(unit: str) -> str:
    """Return a unit as a sentence or the head of a column has it."""
    return "mm" if unit == "mm" else "px"


@dataclass(frozen=True)
class SiteFinding:
    """How one site draws one class, in the audit's unit."""

    site: str
    class_name: str
    cases: int
    verdict: Verdict
    reason: str  # why the verdict is what it is, in words
    # How far it draws outside the sites' mean or the trusted masks, and its 95 % interval
    relative: float | None = None
    low: float | None = None
    high: float | None = None
    sure: float | None = None  # probability that the site lies on this side of zero
    by_estimator: Mapping[str, float] = field(default_factory=dict)  # what each alone says
    silent: Mapping[str, str] = field(default_factory=dict)  # why an estimator cannot tell


@dataclass(frozen=True)
class Overall:
    """All sites together, for one class."""

    class_name: str
    chance: float  # how often sites that draw alike would differ as much (Cochran's Q)
    said: str  # what was found, in words


HELPS = {
    "size": "sites differ in size: feda3i redraw, or method=redraw in a run, came closest to clean "
    "masks",
    "empty": "cases are left empty: look at them again; of the methods tried, method=fednoro lost "
    "least",
}
"""By kind of noise, what the results of the documentation say (Results, Kinds of noise)."""


@dataclass(frozen=True)
class Audit:
    """The shareable result of an audit."""

    title: str
    how: str  # by which model, on which cases, in words
    unit: str  # of every distance: ``px``, ``px of the original images`` or ``mm``
    is_absolute: bool  # whether zero is where trusted masks were drawn, not the mean of the sites
    overall: tuple[Overall, ...]
    findings: tuple[SiteFinding, ...]
    objects: tuple[ObjectFinding, ...] = ()  # noise beyond the contour, if a model judged
    notes: tuple[str, ...] = ()
    true: Mapping[str, float] = field(default_factory=dict)  # offset by site, in simulations

    @property
    def read(self) -> tuple[str, str]:
        """Return how to read it: what an audit can and cannot tell."""
        return ABSOLUTE if self.is_absolute else RELATIVE, COVERED

    @property
    def what_helps(self) -> list[str]:
        """Return what helped most where masks were like these (grid ``noise-types``)."""
        found = {one.kind for one in self.objects if one.is_flagged}
        if any(one.verdict in ("larger", "smaller") for one in self.findings):
            found.add("size")
        return [text for kind, text in HELPS.items() if kind in found]

    def of_class(self, name: str) -> list[SiteFinding]:
        """Return the findings of a class from the smallest to the largest drawer, unjudged last."""
        mine = [one for one in self.findings if one.class_name == name]
        return sorted(mine, key=lambda f: (f.relative is None, f.relative or 0.0, f.site))


@dataclass(frozen=True)
class SiteNumbers:
    """What is needed of a site to judge it."""

    cases: int
    answers: Mapping[str, Offset] = field(default_factory=dict)
    """Offsets of the site by estimator, in pixels at 256, or why there is none."""
    dice: float = math.nan  # of the model and the masks, median over cases


@dataclass(frozen=True)
class Scale:
    """The unit of an audit, and what a pixel at 256 is in it."""

    unit: str = "px"
    pixel: float = 1.0


def site_numbers(
    cases: int, rows: Sequence[CaseRow], scale: Scale, edges: Offset | None = None
) -> SiteNumbers:
    """Return all that is needed of a site: its cases, their rows of one class, their edges."""
    drawn = [row for row in rows if row.is_drawn]
    answers = {} if edges is None else {EDGES: edges}
    if rows:
        answers[CONTOUR] = rescaled(_by_model(drawn), 1 / scale.pixel)
    agreed = _finite([row.dice for row in drawn])
    return SiteNumbers(cases, answers, float(np.median(agreed)) if len(agreed) else math.nan)


def _by_model(drawn: Sequence[CaseRow]) -> Offset:
    """Return the median over cases, or why a model cannot tell."""
    known = _finite([row.offset for row in drawn])
    share, few = float(np.mean([row.is_found for row in drawn])) if drawn else 1.0, len(known)
    if share < LEAST_FOUND:
        return Offset.unknown(few, f"the model finds nothing in {percent(1 - share)} of its cases")
    if few < FEWEST:
        why = f"{few} of its {len(drawn)} drawn cases could be measured, {FEWEST} are needed"
        return Offset.unknown(few, why)
    offset, error = site_offset(known).tolist()
    return Offset(offset, max(error, 1e-3), len(known))


def judge_sites(
    sites: Mapping[str, SiteNumbers],
    *,
    class_name: str,
    scale: Scale,
    trusted: Mapping[str, Offset] | None = None,
) -> tuple[Overall, list[SiteFinding]]:
    """Compare all sites of a class with each other, or with trusted masks' offsets by estimator."""
    by = {key: [one.answers.get(key, NOT_ASKED) for one in sites.values()] for key in ESTIMATORS}
    if weak := _weak(sites):
        by[CONTOUR] = [Offset.unknown(one.cases, weak) for one in by[CONTOUR]]
    zero = trusted or {}
    both = combined(by[EDGES], by[CONTOUR], zero.get(EDGES), zero.get(CONTOUR))
    effects = site_effects(both, zero.get(EDGES))
    known = np.array([one.is_known for one in both])
    offset, error = np.array([(one.offset, one.error) for one in both]).reshape(-1, 2).T
    chance = differ_by_chance(offset[known], error[known]) if known.any() else 1.0
    nobody = ""
    if zero:
        border, model = zero.get(EDGES, NOT_ASKED), zero.get(CONTOUR, NOT_ASKED)
        middle, b_error = (border.offset, border.error) if border.is_known else (0.0, model.error)
        errors, others = np.hypot(error, b_error), "the trusted masks"
        if not any(one.is_known for one in zero.values()):
            nobody = "; ".join(f"trusted masks: {one.reason}" for one in zero.values())
    else:
        middle, errors = _mean(both, offset, error, known, effects.tau)
        others = "the others"
        if known.sum() < 2:
            nobody = "one site could be measured: there is no other site to compare it with"
    radii = [one.radius for one in both if one.radius > 0]
    limit = MATTERS * float(np.median(radii)) if radii else 2.0  # by this contours must differ
    shifts = {key: _constant(answers, both) for key, answers in by.items()}
    findings = []
    for k, (name, one) in enumerate(sites.items()):
        answers = {key: by[key][k] for key in ESTIMATORS if by[key][k] is not NOT_ASKED}
        silent = {key: told.reason for key, told in answers.items() if told.reason}
        alone = {
            key: scale.pixel * (told.offset + shifts[key] - middle)
            for key, told in answers.items()
            if told.is_known
        }
        reason = nobody if known[k] else "; ".join(dict.fromkeys(silent.values()))
        found = SiteFinding(name, class_name, one.cases, "cannot tell", reason)
        found = replace(found, by_estimator=alone, silent=silent)
        if known[k] and not nobody:
            is_alike = not zero and chance > ALIKE
            away = offset[k] - middle
            found = _told(found, away, float(errors[k]), limit, scale, is_alike, others)
        findings.append(found)
    said = _said(both, effects, chance, zero, scale, weak)
    return Overall(class_name, chance, "; ".join(said)), findings


def _weak(sites: Mapping[str, SiteNumbers]) -> str:
    """Return why the model cannot be used for any site; nothing if it can, or is not used."""
    dice = _finite([one.dice for one in sites.values()])
    if len(dice) and np.median(dice) < LEAST_DICE:
        return (
            f"the model is too weak: its median Dice with the masks is {np.median(dice):.2f}, "
            f"{LEAST_DICE} is needed; train longer or on more cases"
        )
    return ""


def _mean(
    both: Sequence[Offset], offset: FloatArray, error: FloatArray, known: FloatArray, tau: float
) -> tuple[float, FloatArray]:
    """Return the sites' mean by the random-effects model, and the errors of offsets from it.

    Each site is a part of that mean.
    """
    raw = np.array([1 / (one.error**2 + tau**2) if one.is_known else 0.0 for one in both])
    weights = raw / max(raw.sum(), 1e-12)
    share = 1 / max(int(known.sum()), 1)
    others = float(np.square(error[known]).sum()) - error**2
    errors = np.asarray(np.sqrt((1 - share) ** 2 * error**2 + share**2 * others))
    return float(weights @ np.where(known, offset, 0.0)), errors


def _constant(answers: Sequence[Offset], both: Sequence[Offset]) -> float:
    """Return an estimator's own constant, which is no opinion about any site."""
    pairs = zip(answers, both, strict=True)
    away = [b.offset - a.offset for a, b in pairs if a.is_known and b.is_known]
    return float(np.mean(away)) if away else 0.0


def _told(
    found: SiteFinding,
    away: float,
    error: float,
    limit: float,
    scale: Scale,
    is_alike: bool,
    others: str,
) -> SiteFinding:
    """Return a finding with its numbers, in the audit's unit, and its verdict."""
    by, low, high = (scale.pixel * (away + k * error) for k in (0.0, -WIDE, WIDE))
    limit, unit = scale.pixel * limit, sign_of(scale.unit)
    near, far = sorted((abs(low), abs(high)))
    ends = f"{abs(by):.1f} {unit} ({near:.1f} to {far:.1f})"
    side: Verdict = "larger" if by > 0 else "smaller"
    verdict: Verdict = "cannot tell"
    said = (
        f"{low:+.1f} to {high:+.1f} {unit}: too few cases, or they differ too much from each other"
    )
    if (low > 0 or high < 0) and not is_alike:
        if abs(by) >= limit:
            verdict, said = side, f"draws {ends} {side} than {others}"
        else:
            verdict, said = "slightly", f"draws slightly {side} than {others}, {ends}"
    elif max(-low, high) <= (4 if is_alike else 2) * limit:
        verdict = "about the same"
        said = f"draws about the same as {others}: within {far:.1f} {unit}"
    sure = float(norm.cdf(abs(away) / error)) if error > 0 else 1.0
    return replace(found, verdict=verdict, reason=said, relative=by, low=low, high=high, sure=sure)


def _said(
    both: Sequence[Offset],
    effects: Effects,
    chance: float,
    zero: Mapping[str, Offset],
    scale: Scale,
    weak: str,
) -> list[str]:
    count, unit = sum(one.is_known for one in both), sign_of(scale.unit)
    if count == 0 or (count < 2 and not zero):
        said = [f"cannot tell: {weak or 'fewer than two sites could be measured'}"]
    elif count < 2:
        said = ["one site, compared with trusted masks"]
    elif chance > ALIKE:
        more = "" if zero else ", nor can anyone tell whether all are wrong in the same way"
        said = [f"the {count} sites differ no more than by chance (p = {chance:.2f}){more}"]
    else:
        p = "< 0.001" if chance < 0.001 else f"= {chance:.3f}"
        said = [f"{count} of {len(both)} sites could be measured and do differ (p {p})"]
        said[0] += f", typically by {scale.pixel * effects.tau:.1f} {unit}"
    if (border := zero.get(EDGES)) is not None:
        told = f"cannot be told from the images: {border.reason}"
        if border.is_known:
            b, error = scale.pixel * border.offset, scale.pixel * border.error
            told = (
                f"{b:+.1f} {unit} (standard error {error:.1f}) outside the border in their images"
            )
        said.append(f"b0 of the trusted masks: {told}")
    if effects.reason and count > 1:
        said.append(f"nobody should redraw by this: {effects.reason}")
    return said


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %"


def _finite(values: Sequence[float]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]
