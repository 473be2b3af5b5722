"""Lists of cases stay at their sites; what may be shared names none of them."""

import csv
import json
import math
from io import StringIO

import pytest

from feda3i.audit.assemble import build_audit, looks_of
from feda3i.audit.audit_page import page_of
from feda3i.audit.case_rows import CaseRow, second_looks
from feda3i.audit.judge import Scale
from feda3i.audit.sources import Material
from feda3i.audit.writing import text_of, write_audit
from feda3i.seeding import rng
from pages import HOSTILE as HOSTILE_NAMES
from pages import read

HOSTILE = '<script>alert("x")</script>'


def row(case, offset, wobble=0.5, dice=0.9, is_drawn=True, is_found=True, site="A", number=1):
    return CaseRow(case, site, number, {"contour": offset}, wobble, dice, is_drawn, is_found)


def material(sites=("A", "B", HOSTILE), classes=("lesion",), **more):
    rows = []
    for number, site in enumerate(sites):
        noise = rng(0, "looks", number).standard_normal(12)
        for k, value in enumerate(noise):
            for c in range(1, len(classes) + 1):
                rows.append(row(f"secret-{number}-{k}", 4 * number + value, site=site, number=c))
    return Material("t", "a model", Scale(), tuple(classes), tuple(rows), **more)


def test_odd_cases_come_first_and_a_habit_is_no_reason():
    rows = [row(f"usual-{k}", 5 + 0.1 * k) for k in range(8)]
    rows += [
        row("far", 12.0),
        row("wobbly", 5.3, wobble=4.0),
        row("apart", -20.0, dice=0.0),
        row("unfound", math.nan, math.nan, 0.0, is_found=False),
        row("undrawn", math.nan, math.nan, 0.0, is_drawn=False),
        row("both empty", math.nan, math.nan, math.nan, is_drawn=False, is_found=False),
    ]
    looks = second_looks(rows, "contour", "px")
    assert [one.case for one in looks[:5]] == ["apart", "undrawn", "unfound", "far", "wobbly"]
    assert [one.rank for one in looks] == list(range(1, len(looks) + 1))
    assert "both empty" not in {one.case for one in looks}
    assert looks[3].reason == "drawn 6.7 px larger than this site usually does"
    assert looks[4].reason.startswith("the contour departs")
    assert [one.is_unusual for one in looks[:6]] == [True] * 5 + [False]


def test_files_and_what_they_hold(tmp_path):
    found = material()
    audit = build_audit(found)
    made = write_audit(tmp_path / "out", audit, looks_of(found), found.classes, page_of(audit))
    shared = [path for path in made if path.parent == tmp_path / "out"]
    assert [path.name for path in shared] == ["audit.json", "audit.csv", "audit.html"]
    for path in shared:
        assert "secret" not in path.read_text()
    page = (tmp_path / "out" / "audit.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert" in page
    summary = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert {one["site"]: one["verdict"] for one in summary["findings"]} == {
        "A": "smaller",
        "B": "about the same",
        HOSTILE: "larger",
    }
    table = list(csv.DictReader(StringIO((tmp_path / "out" / "audit.csv").read_text())))
    assert [one["verdict"] for one in table] == [one["verdict"] for one in summary["findings"]]
    lists = [path for path in made if path not in shared]
    assert len(lists) == 3
    for path in lists:
        assert path.name == "second-look.csv"
        assert path.stat().st_mode & 0o077 == 0
        assert (tmp_path / "out" / "stays-at-the-site") in path.parents
    own = next(path for path in lists if path.parent.name == "A")
    rows = list(csv.DictReader(StringIO(own.read_text())))
    assert {one["case"] for one in rows} == {f"secret-0-{k}" for k in range(12)}


def test_hostile_names_are_text_in_every_file(tmp_path):
    found = material(sites=tuple(HOSTILE_NAMES))
    audit = build_audit(found)
    page = read(page_of(audit))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    made = write_audit(tmp_path / "out", audit, looks_of(found), found.classes, page_of(audit))
    lists = [path for path in made if path.name == "second-look.csv"]
    assert len(set(lists)) == len(HOSTILE_NAMES)
    assert all(path.parents[2] == tmp_path / "out" for path in lists)


def test_the_text_says_that_sites_are_compared_with_each_other():
    text = text_of(build_audit(material()))
    assert "The answer is relative: sites are compared with each other" in text
    assert "larger" in text
    assert "secret" not in text


def test_every_class_is_judged():
    audit = build_audit(material(classes=("liver", "tumour")))
    assert [one.class_name for one in audit.overall] == ["liver", "tumour"]
    assert len(audit.findings) == 6
    assert "Who draws how: tumour" in page_of(audit)
    assert "tumour" in text_of(audit)


def test_the_truth_of_a_simulation_is_shown_beside():
    true = {"A": 0.0, "B": 4.0, HOSTILE: 8.0}
    audit = build_audit(material(true=true))
    assert "the truth, which only simulations know" in page_of(audit)
    assert build_audit(material(), margin=50.0).findings[0].verdict == "slightly"


def test_nothing_can_be_told_of_an_audit_of_nothing():
    audit = build_audit(material(sites=("A",)))
    assert audit.findings[0].verdict == "cannot tell"
    assert "no other site to compare it with" in page_of(audit)
    assert "cannot tell: A" in text_of(audit)


@pytest.mark.parametrize("unit", ["mm", "px", "px of the original images"])
def test_the_unit_is_said(unit):
    rows = material().rows
    audit = build_audit(Material("t", "m", Scale(unit), ("lesion",), rows))
    assert f"in {unit}" in text_of(audit)
