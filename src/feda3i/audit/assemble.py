"""The audit of measured sites, and of arrays in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from feda3i.audit.case_rows import CaseRow, SecondLook, measure_cases, second_looks
from feda3i.audit.judge import Audit, Scale, SiteNumbers, judge_sites, sign_of, site_numbers
from feda3i.core.cases import Cases
from feda3i.quality import SIDE, Offset, longest_side, measure_edges, rescaled
from feda3i.quality.objects import Counts, judge_objects

TRUSTED = "trusted"  # stands for a site, for masks that are known to be right


def build_audit(
    scale: Scale,
    classes: Sequence[str],
    sites: Sequence[Mapping[str, SiteNumbers]],
    trusted: Sequence[Mapping[str, Offset]] | None = None,
    objects: Mapping[str, Counts] | None = None,
    **more: Any,
) -> Audit:
    """Judge every class; no case's name is in the result.

    ``sites`` holds by class what is known of each site, ``trusted`` the offsets by estimator of
    masks that are known to be right, ``more`` what else an audit says of itself.
    """
    overall, findings = [], []
    for k, name in enumerate(classes):
        zero = None if trusted is None else trusted[k]
        said, found = judge_sites(sites[k], class_name=name, scale=scale, trusted=zero)
        overall.append(said)
        findings += found
    return Audit(
        unit=scale.unit,
        is_absolute=trusted is not None,
        overall=tuple(overall),
        findings=tuple(findings),
        objects=tuple(judge_objects(objects or {})),
        **more,
    )


def audit_cases(
    unit: str,
    cases: Cases,
    rows: Sequence[CaseRow],
    sites: Sequence[str],
    classes: Sequence[str],
    trusted: tuple[Cases, Sequence[CaseRow]] | None = None,
    **more: Any,
) -> Audit:
    """Judge cases, each of its site, by their edges and by a model's rows if there are any.

    ``trusted`` are cases whose masks are known to be right, and a model's rows of them.
    """
    shapes = cases.masks.shapes if cases.is_ragged else [cases.shape] * len(cases)
    size = np.ones((1, cases.dimensions)) if cases.spacing is None else cases.spacing
    pixel = float(np.median((size * np.asarray(shapes)).max(axis=1))) / SIDE
    scale, zero, objects = Scale(unit, pixel), None, {}
    if trusted is not None:
        right, own = trusted
        found = numbers_of(right, [TRUSTED] * len(right), own, len(classes), scale)
        zero = [one[TRUSTED].answers for one in found]
    numbers = numbers_of(cases, sites, rows, len(classes), scale)
    for site, mine in by_site([row for row in rows if row.class_number == 1]).items():
        if counted := [row.objects for row in mine if row.objects is not None]:
            objects[site] = sum(counted, Counts())
    return build_audit(scale, classes, numbers, zero, objects, **more)


def looks_of(rows: Sequence[CaseRow], unit: str) -> dict[str, list[SecondLook]]:
    """Return each site's ranked cases."""
    return {site: second_looks(mine, sign_of(unit)) for site, mine in by_site(rows).items()}


def audit_arrays(
    images: Any,
    masks: Any,
    sites: Sequence[str],
    *,
    predicted: Any = None,
    trusted: tuple[Any, Any] | None = None,
    spacing: ArrayLike | None = None,
    classes: Sequence[str] = ("lesion",),
) -> Audit:
    """Return the audit of arrays: no folder, no recipe, no training.

    Parameters
    ----------
    images
        ``(case, *space)`` or ``(case, *space, channel)``, values of 0..255.
    masks
        ``(case, *space)`` with value k for the k-th of ``classes``.
    sites
        The site of each case.
    predicted
        Masks of a model that has not seen these; without them edges in the images judge alone.
    trusted
        Images and masks that are known to be right: they are zero.
    spacing
        ``(case, dimension)`` size of a pixel in millimetres; offsets are then in mm.

    >>> yy, xx = np.mgrid[:64, :64] - 32
    >>> away = np.stack([np.hypot(yy, xx + k % 8) for k in range(16)])
    >>> drawn = away < np.repeat([14, 17], 8)[:, None, None]
    >>> found = audit_arrays(200 - 100 * (away < 14), drawn, ["a"] * 8 + ["b"] * 8)
    >>> [one.verdict for one in found.findings]
    ['smaller', 'larger']
    """
    cases, how, rows = _cases(images, masks, spacing), "edges in the images", []
    if predicted is not None:
        how += " and a given model"
        rows = measure_cases(cases, sites, np.asarray(predicted, np.uint8), classes=len(classes))
    unit = "px" if spacing is None else "mm"
    right = None if trusted is None else (_cases(*trusted, None), ())
    return audit_cases(unit, cases, rows, sites, classes, right, title="arrays", how=how)


def _cases(images: Any, masks: Any, spacing: ArrayLike | None) -> Cases:
    drawn, pixels = np.asarray(masks).astype(np.uint8), np.asarray(images)
    pixels = pixels[..., None] if pixels.ndim == drawn.ndim else pixels
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    sizes = None if spacing is None else np.asarray(spacing, np.float64)
    return Cases(tuple(map(str, range(len(drawn)))), pixels, drawn, spacing=sizes)


def numbers_of(
    cases: Cases, sites: Sequence[str], rows: Sequence[CaseRow], classes: int, scale: Scale
) -> list[dict[str, SiteNumbers]]:
    """Return by class the numbers of each site: of a model's rows, and of the edges."""
    found: list[dict[str, SiteNumbers]] = [{} for _ in range(classes)]
    for site in sorted(set(sites)):
        own = cases.take(np.array([k for k, name in enumerate(sites) if name == site]))
        mine = [row for row in rows if row.site == site]
        for k, each in enumerate(found, 1):
            here, edges = [row for row in mine if row.class_number == k], site_edges(own, k)
            each[site] = site_numbers(len(own), here, scale, edges)
    return found


def site_edges(cases: Cases, number: int) -> Offset:
    """Return how far a site's masks of a class lie outside the images' edges, in px at 256."""
    masks = [np.asarray(mask) == number for mask in cases.masks]
    voxels = cases.voxels()
    sizes = [None] * len(masks) if voxels is None else voxels.tolist()
    sides = [longest_side(mask.shape, one) for mask, one in zip(masks, sizes, strict=True)]
    images = [np.asarray(image) for image in cases.images]
    found = measure_edges(images, masks, spacing=voxels)
    return rescaled(found, SIDE / float(np.median(sides)))


def by_site(rows: Sequence[CaseRow]) -> dict[str, list[CaseRow]]:
    """Return the rows of each site, sites in order of their names."""
    found: dict[str, list[CaseRow]] = {site: [] for site in sorted({row.site for row in rows})}
    for row in rows:
        found[row.site].append(row)
    return found
