"""Offsets by estimators that look at all cases of a site together.

Offsets are calibrated by trusted masks if there are any: they then tell how far a site draws from
where those were drawn, and not only how it differs from the other sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from feda3i.audit.estimators import Estimator, Look, estimators_of, pixel_size
from feda3i.core.cases import Cases
from feda3i.quality.measure import Offset, calibrate_offset

Answers = Mapping[str, Mapping[str, Offset]]
"""By site, then by estimator."""


def measure_sites(
    portions: Sequence[tuple[Cases, Sequence[str]]],
    *,
    classes: int,
    estimators: Sequence[str],
    trusted: Cases | None = None,
) -> list[Answers]:
    """Return by class what each such estimator says of each site.

    ``portions`` are cases with the site of each; distances are in the unit of their spacing.
    ``trusted`` are cases with trusted masks, of the same size.
    """
    asked = [one for one in estimators_of(estimators) if one.of_site is not None]
    if not asked:
        return [{} for _ in range(classes)]
    found: list[Answers] = []
    for number in range(1, classes + 1):
        looks: dict[str, list[Look]] = {}
        for cases, sites in portions:
            for look, site in zip(_looks(cases, number), sites, strict=True):
                looks.setdefault(site, []).append(look)
        good = None if trusted is None else _looks(trusted, number)
        zero = {one.name: None if good is None else _in_pixels(one, good) for one in asked}
        found.append(
            {
                site: {one.name: _answer(one, mine, zero[one.name]) for one in asked}
                for site, mine in looks.items()
            }
        )
    return found


def _looks(cases: Cases, number: int) -> list[Look]:
    sizes = [None] * len(cases) if cases.spacing is None else cases.spacing.tolist()
    return [
        Look(np.asarray(image), np.asarray(mask) == number, spacing=size)
        for image, mask, size in zip(cases.images, cases.masks, sizes, strict=True)
    ]


def _in_pixels(estimator: Estimator, looks: Sequence[Look]) -> Offset:
    if estimator.of_site is None:
        raise ValueError(f"the estimator '{estimator.name}' measures single cases only")
    return estimator.of_site(looks)


def _answer(estimator: Estimator, looks: Sequence[Look], zero: Offset | None) -> Offset:
    """Return a site's offset in the unit of its spacing, from trusted masks if there are any."""
    found = _in_pixels(estimator, looks)
    if zero is not None:
        found = calibrate_offset(found, zero, max(looks[0].drawn.shape))
    size = float(np.median([pixel_size(look) for look in looks]))
    return replace(found, offset=size * found.offset, error=size * found.error)
