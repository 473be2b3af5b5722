"""What further estimators say of each site, and whether they agree with the one that judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from feda3i.audit.findings import Overall, SiteFinding
from feda3i.quality.measure import LEAST_AGREEMENT, Offset, agreement
from feda3i.quality.numbers import FloatArray
from feda3i.quality.offset import site_offset

CERTAIN = 2.0
"""Standard errors from zero at which another estimator's offset counts against a verdict."""


def beside(found: Mapping[str, Offset], zero: float | None) -> dict[str, Offset]:
    """Return one estimator's offsets from zero, or from the median of the sites it can tell."""
    known = [one.offset for one in found.values() if one.is_known]
    if zero is None:
        zero = float(np.median(known)) if known else 0.0
    if not math.isfinite(zero):
        reason = "it can measure none of the trusted masks"
        return {site: Offset.unknown(one.cases, reason) for site, one in found.items()}
    return {site: replace(one, offset=one.offset - zero) for site, one in found.items()}


def offset_of_cases(offsets: FloatArray) -> Offset:
    """Return the median over cases with its standard error, or why there is none."""
    offset, error = site_offset(offsets).tolist()
    if not math.isfinite(offset):
        return Offset.unknown(len(offsets), f"it can measure {len(offsets)} cases, 2 are needed")
    return Offset(offset, error, len(offsets))


def compared(
    finding: SiteFinding, first: str, others: Mapping[str, Offset], margin: float
) -> SiteFinding:
    """Return a finding with other estimators' answers; an opposite answer withdraws the verdict.

    ``first`` is the estimator that judged; the others' answers lie beside the same zero.
    """
    verdict, reason = finding.verdict, finding.reason
    for name, one in others.items():
        if verdict in ("larger", "smaller") and _is_opposite(one, finding.relative, margin):
            verdict = "cannot tell"
            reason += f"; but the estimator {name} finds the opposite"
    by_estimator = {name: one.offset if one.is_known else None for name, one in others.items()}
    return replace(
        finding,
        verdict=verdict,
        reason=reason,
        by_estimator={first: finding.relative, **by_estimator},
        silent={name: one.reason for name, one in others.items() if not one.is_known},
    )


def _is_opposite(other: Offset, relative: float | None, margin: float) -> bool:
    if not other.is_known or relative is None or other.offset * relative >= 0:
        return False
    return abs(other.offset) >= max(margin, CERTAIN * other.error)


def with_agreement(
    overall: Overall, findings: Sequence[SiteFinding], estimators: Sequence[str]
) -> Overall:
    """Return the words about all sites with the agreement of the first two estimators."""
    if len(estimators) < 2:
        return overall
    one, two = ([_as_offset(found, name) for found in findings] for name in estimators[:2])
    rho = agreement(one, two)
    if not math.isfinite(rho):
        return overall
    names = " and ".join(estimators[:2])
    if rho < LEAST_AGREEMENT:
        said = f"the estimators {names} agree badly (Spearman {rho:.2f}): look before you believe"
    else:
        said = f"the estimators {names} agree (Spearman {rho:.2f})"
    return replace(overall, agreement=rho, said=f"{overall.said}; {said}")


def _as_offset(found: SiteFinding, name: str) -> Offset:
    value = found.by_estimator.get(name)
    return Offset.unknown(0, "no answer") if value is None else Offset(value, 0.0, found.measured)
