"""From material to the audit: every class judged, and every site's list of second looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from feda3i.audit.case_rows import CaseRow, SecondLook, second_looks
from feda3i.audit.findings import READ, READ_TRUSTED, Audit
from feda3i.audit.judge import SiteNumbers, judge_sites, site_numbers
from feda3i.audit.objects import Counts, judge_objects
from feda3i.audit.sources import TRUSTED, Material
from feda3i.quality import Offset


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
        objects=tuple(judge_objects(_counted(material.rows))),
    )


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
