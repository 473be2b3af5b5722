"""Lists of cases stay at their sites; what may be shared names none of them."""

import csv
import json
import math
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from feda3i.audit.assemble import build_audit, looks_of
from feda3i.audit.audit_page import page_of
from feda3i.audit.case_rows import CaseRow, measure_cases, misfit, second_looks
from feda3i.audit.judge import Scale
from feda3i.audit.sources import Material
from feda3i.audit.writing import text_of, write_audit
from feda3i.core.cases import Cases
from feda3i.quality.objects import Counts
from feda3i.seeding import rng
from pages import HOSTILE as HOSTILE_NAMES
from pages import read

HOSTILE = '<script>alert("x")</script>'


def row(
    case, offset, wobble=0.5, dice=0.9, is_drawn=True, is_found=True, site="A", number=1, misfit=0.1
):
    measured = {"contour": offset}, wobble, dice, is_drawn, is_found
    return CaseRow(case, site, number, *measured, misfit=misfit)


def material(sites=("A", "B", HOSTILE), classes=("lesion",), **more):
    rows = []
    for number, site in enumerate(sites):
        noise = rng(0, "looks", number).standard_normal(12)
        for k, value in enumerate(noise):
            for c in range(1, len(classes) + 1):
                rows.append(row(f"secret-{number}-{k}", 4 * number + value, site=site, number=c))
    return Material("t", "a model", Scale(), tuple(classes), tuple(rows), **more)


def test_cases_that_fit_least_come_first_and_at_most_one_in_twenty_is_to_be_looked_at():
    rows = [row(f"usual-{k}", 5 + 0.1 * k) for k in range(54)]
    rows += [
        row("far", 14.0, misfit=0.5),
        row("wobbly", 5.3, wobble=4.0, misfit=0.4),
        row("apart", -20.0, dice=0.0, misfit=1.9),
        row("unfound", math.nan, math.nan, 0.0, is_found=False, misfit=1.0),
        row("undrawn", math.nan, math.nan, 0.0, is_drawn=False, misfit=1.0),
        row("both empty", math.nan, math.nan, math.nan, False, False, misfit=math.nan),
    ]
    looks = second_looks(rows, "contour", "px")
    assert [one.case for one in looks[:5]] == ["apart", "undrawn", "unfound", "far", "wobbly"]
    assert [one.rank for one in looks] == list(range(1, len(looks) + 1))
    assert "both empty" not in {one.case for one in looks}
    assert looks[3].reason == "drawn 6.4 px larger than this site usually does"
    assert looks[4].reason.startswith("the contour departs")
    assert [one.is_unusual for one in looks] == [True] * 3 + [False] * 56
    assert not any(one.is_unusual for one in second_looks(rows[:54], "contour", "px"))


def test_a_reason_names_the_object_that_is_missing_or_has_another_class():
    rows = [row(f"usual-{k}", 0.0) for k in range(20)]
    missed = replace(row("missed", 0.0, misfit=0.5), objects=Counts(2, 1, 1, 0, 1, 0))
    swapped = replace(row("swapped", 0.0, dice=0.0, misfit=0.9), objects=Counts(1, 1, 1, 1, 1, 0))
    looks = second_looks([*rows, missed, swapped], "contour", "px")
    assert [(one.case, one.reason) for one in looks[:2]] == [
        ("swapped", "an object has another class than the model gives it"),
        ("missed", "an object that the model sees was not drawn"),
    ]


def disk(radius, row=32, col=32):
    rows, cols = np.ogrid[:64, :64]
    return (rows - row) ** 2 + (cols - col) ** 2 <= radius**2


@pytest.mark.parametrize(
    ("drawn", "habit", "expected"),
    [
        (disk(10), 0.0, 0.0),
        (disk(14), 4.0, 0.0),  # drawn 4 px too large, as ever
        (disk(6), -4.0, 0.0),
        (disk(6), 0.0, 1 - 0.6**2),  # areas go with the square of the radius
        (disk(10), 4.0, 1 - (10 / 14) ** 2),
        (disk(10, 10, 10), 0.0, 2.0),
        (disk(-1) > 1, 0.0, 1.0),
        (disk(10), -20.0, 0.0),  # a habit that leaves nothing is none
    ],
)
def test_a_misfit_is_the_area_that_differs_beside_the_habit(drawn, habit, expected):
    assert misfit(drawn, disk(10), habit) == pytest.approx(expected, abs=0.12)
    sized = misfit(drawn, disk(10), 0.5 * habit, (0.5, 0.5))
    assert sized == pytest.approx(misfit(drawn, disk(10), habit))


def test_a_habit_of_a_site_is_no_misfit_of_its_cases():
    masks = np.stack([disk(14)] * 9 + [disk(10)]).astype(np.uint8)
    images = np.zeros((*masks.shape, 1), np.uint8)
    cases = Cases(tuple(map(str, range(10))), images, masks)
    guess = np.stack([disk(10)] * 10).astype(np.uint8)
    rows = measure_cases(cases, ["A"] * 10, guess)
    assert [one.misfit for one in rows] == pytest.approx([0.0] * 9 + [1 - (10 / 14) ** 2], abs=0.04)


def test_files_and_what_they_hold(tmp_path):
    found = material()
    audit = build_audit(found)
    made = write_audit(tmp_path / "out", audit, looks_of(found), found.classes, page_of(audit))
    shared = [path for path in made if path.parent == tmp_path / "out"]
    assert [path.name for path in shared] == ["audit.json", "audit.csv", "audit.html"]
    for path in shared:
        assert "secret" not in path.read_text("utf-8")
    page = (tmp_path / "out" / "audit.html").read_text("utf-8")
    assert HOSTILE not in page
    assert "&lt;script&gt;alert" in page
    summary = json.loads((tmp_path / "out" / "audit.json").read_text("utf-8"))
    assert {one["site"]: one["verdict"] for one in summary["findings"]} == {
        "A": "smaller",
        "B": "about the same",
        HOSTILE: "larger",
    }
    table = list(csv.DictReader(StringIO((tmp_path / "out" / "audit.csv").read_text("utf-8"))))
    assert [one["verdict"] for one in table] == [one["verdict"] for one in summary["findings"]]
    lists = [path for path in made if path not in shared]
    assert len(lists) == 3
    for path in lists:
        assert path.name == "second-look.csv"
        assert path.stat().st_mode & 0o077 == 0
        assert (tmp_path / "out" / "stays-at-the-site") in path.parents
    own = next(path for path in lists if path.parent.name == "A")
    rows = list(csv.DictReader(StringIO(own.read_text("utf-8"))))
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


def test_each_site_has_a_page_of_its_odd_cases(tmp_path):
    """It shows pictures, so only its user may read it; the audit itself shows none."""
    rows = [row(f"c{k}", 1.0, misfit=0.1) for k in range(20)] + [row("odd", 9.0, misfit=0.9)]
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 1
    show = lambda case: (np.full((64, 64, 1), 90, np.uint8), mask, np.roll(mask, 4, axis=0))
    found = Material("t", "m", Scale(), ("lesion",), tuple(rows), show=show)
    audit, looks = build_audit(found), looks_of(found)
    made = write_audit(tmp_path / "o", audit, looks, found.classes, page_of(audit), found.show)
    (page,) = [path for path in made if path.name == "second-look.html"]
    assert page.stat().st_mode & 0o077 == 0
    text = page.read_text("utf-8")
    assert "odd" in text
    assert "c1<" not in text
    assert "suggested by the model" in text
    assert text.count("data:image") == 1
    assert "data:image" not in (tmp_path / "o" / "audit.html").read_text("utf-8")
