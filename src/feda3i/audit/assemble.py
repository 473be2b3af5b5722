"""From material to the audit: every class judged, and every site's list of second looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from feda3i.audit.case_rows import CaseRow, SecondLook, measure_cases, second_looks
from feda3i.audit.estimators import edges_of_sites
from feda3i.audit.findings import READ, READ_TRUSTED, Audit
from feda3i.audit.judge import Scale, SiteNumbers, judge_sites, site_numbers
from feda3i.audit.sources import TRUSTED, Material, pixel_of
from feda3i.core.cases import Cases
from feda3i.quality import Offset
from feda3i.quality.objects import Counts, judge_objects


def build_audit(material: Material, margin: float | None = None) -> Audit:
    """Judge every class; no case's name is in the result."""
    scale = replace(material.scale, margin=margin)
    overall, findings = [], []
    for number, class_name in enumerate(material.classes, 1):
        said, found = judge_sites(
            material.surveyed[number - 1] if material.surveyed else _measured(material, number),
            class_name=class_name,
            scale=scale,
            trusted=_zero(material, number) if material.trusted else None,
        )
        overall.append(said)
        findings += found
    return Audit(
        title=material.title,
        how=material.how,
        unit=scale.unit,
        margin=margin,
        overall=tuple(overall),
        findings=tuple(findings),
        notes=material.notes,
        read=READ_TRUSTED if material.trusted else READ,
        is_absolute=bool(material.trusted),
        true=dict(material.true),
        seed=material.seed,
        objects=tuple(judge_objects(material.objects or _counted(material.rows))),
    )


def audit_arrays(
    images: Any,
    masks: Any,
    sites: Sequence[str],
    *,
    predicted: Any = None,
    trusted: tuple[Any, Any] | None = None,
    spacing: ArrayLike | None = None,
    classes: Sequence[str] = ("lesion",),
    margin: float | None = None,
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
    margin
        Differences below this do not matter; by default 5 % of the objects' inner radius.

    >>> yy, xx = np.mgrid[:64, :64] - 32
    >>> away = np.stack([np.hypot(yy, xx + k % 8) for k in range(16)])
    >>> drawn = away < np.repeat([14, 17], 8)[:, None, None]
    >>> found = audit_arrays(200 - 100 * (away < 14), drawn, ["a"] * 8 + ["b"] * 8)
    >>> [one.verdict for one in found.findings]
    ['smaller', 'larger']
    """
    cases = _cases(images, masks, spacing)
    asked = ("edges",) if predicted is None else ("contour", "edges")
    options: dict[str, Any] = {"classes": len(classes), "estimators": asked}
    guess = None if predicted is None else np.asarray(predicted, np.uint8)
    material = Material(
        title="arrays",
        how="edges in the images" if guess is None else "edges in the images and a given model",
        scale=Scale("px" if spacing is None else "mm", pixel_of(cases)),
        classes=tuple(classes),
        rows=tuple(measure_cases(cases, sites, guess, **options)),
        edges=edges_of_sites(cases, sites, len(classes)),
    )
    if trusted is not None:
        good = _cases(*trusted, None)
        names = [TRUSTED] * len(good)
        rows = measure_cases(good, names, None, classes=len(classes), estimators=("edges",))
        zero = edges_of_sites(good, names, len(classes))
        material = replace(material, trusted=tuple(rows), trusted_edges=zero)
    return build_audit(material, margin)


def _cases(images: Any, masks: Any, spacing: ArrayLike | None) -> Cases:
    drawn, pixels = np.asarray(masks).astype(np.uint8), np.asarray(images)
    pixels = pixels[..., None] if pixels.ndim == drawn.ndim else pixels
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    sizes = None if spacing is None else np.asarray(spacing, np.float64)
    return Cases(tuple(map(str, range(len(drawn)))), pixels, drawn, spacing=sizes)


def _counted(rows: Sequence[CaseRow]) -> dict[str, Counts]:
    """Return each site's counts of objects, of all classes together."""
    first = [row for row in rows if row.class_number == 1]
    return {
        site: sum((row.objects for row in mine if row.objects is not None), Counts())
        for site, mine in by_site(first).items()
        if any(row.objects is not None for row in mine)
    }


def _measured(material: Material, number: int) -> dict[str, SiteNumbers]:
    """Return the numbers of each site for one class."""
    rows = [row for row in material.rows if row.class_number == number]
    edges = material.edges[number - 1] if material.edges else {}
    return {
        site: site_numbers(mine, material.scale, edges.get(site))
        for site, mine in by_site(rows).items()
    }


def _zero(material: Material, number: int) -> dict[str, Offset]:
    """Return the offsets of trusted masks by estimator."""
    rows = [row for row in material.trusted if row.class_number == number]
    edges = material.trusted_edges[number - 1].get(TRUSTED) if material.trusted_edges else None
    return dict(site_numbers(rows, material.scale, edges).answers)


def looks_of(material: Material) -> dict[str, list[SecondLook]]:
    """Return each site's ranked cases; none for an audit from a survey."""
    if not material.rows:
        return {}
    first = next(iter(material.rows[0].offsets))
    return {
        site: second_looks(rows, first, material.scale.sign)
        for site, rows in by_site(material.rows).items()
    }


def by_site(rows: Sequence[CaseRow]) -> Mapping[str, list[CaseRow]]:
    """Return the rows of each site, sites in order of their names."""
    found: dict[str, list[CaseRow]] = {site: [] for site in sorted({row.site for row in rows})}
    for row in rows:
        found[row.site].append(row)
    return found
