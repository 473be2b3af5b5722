"""From material to the audit: every class judged, and every site's list of second looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from feda3i.audit.case_rows import CaseRow, SecondLook, second_looks
from feda3i.audit.findings import READ, READ_TRUSTED, Audit
from feda3i.audit.judge import SiteNumbers, judge_sites, site_numbers
from feda3i.audit.objects import Counts, judge_objects
from feda3i.audit.sources import Material
from feda3i.errors import DataError
from feda3i.quality.numbers import FloatArray


def build_audit(material: Material, margin: float | None = None) -> Audit:
    """Judge every class; no case's name is in the result."""
    trusted = material.trusted
    wide = material.margin if margin is None else margin
    overall, findings = [], []
    for number, class_name in enumerate(material.classes, 1):
        said, found = judge_sites(
            material.surveyed[number - 1] if material.surveyed else _measured(material, number),
            class_name=class_name,
            unit=material.unit,
            margin=wide,
            trusted=_zero(trusted, number, class_name) if trusted else None,
            seed=material.seed,
        )
        overall.append(said)
        findings += found
    return Audit(
        title=material.title,
        how=material.how,
        unit=material.unit,
        margin=wide,
        overall=tuple(overall),
        findings=tuple(findings),
        notes=material.notes,
        read=READ_TRUSTED if trusted else READ,
        is_absolute=bool(trusted),
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
    whole = material.whole[number - 1] if material.whole else {}
    return {
        site: replace(site_numbers(mine), answers=whole.get(site, {}))
        for site, mine in by_site(rows).items()
    }


def looks_of(material: Material) -> dict[str, list[SecondLook]]:
    """Return each site's ranked cases; none for an audit from a survey."""
    if not material.rows:
        return {}
    first = next(iter(material.rows[0].offsets))
    return {
        site: second_looks(rows, first, material.unit)
        for site, rows in by_site(material.rows).items()
    }


def by_site(rows: Sequence[CaseRow]) -> Mapping[str, list[CaseRow]]:
    """Return the rows of each site, sites in order of their names."""
    found: dict[str, list[CaseRow]] = {site: [] for site in sorted({row.site for row in rows})}
    for row in rows:
        found[row.site].append(row)
    return found


def _zero(trusted: Sequence[CaseRow], number: int, class_name: str) -> Mapping[str, FloatArray]:
    numbers = site_numbers([row for row in trusted if row.class_number == number])
    if numbers.measured < 2:
        raise DataError(
            f"expected trusted masks of class '{class_name}' that can be compared with the model, "
            f"found {numbers.measured}"
        )
    return numbers.offsets
