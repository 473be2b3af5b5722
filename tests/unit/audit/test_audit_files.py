"""Lists of cases stay at their sites; what may be shared names none of them."""

import csv
import json
from io import StringIO

import numpy as np
import pytest

from browser import Browser, find_browser
from feda3i.audit.assemble import Material, build_audit, by_site, looks_of
from feda3i.audit.audit_page import page_of
from feda3i.audit.case_rows import CaseRow
from feda3i.audit.judge import Scale, site_numbers
from feda3i.audit.writing import text_of, write_audit
from feda3i.seeding import rng
from pages import HOSTILE as HOSTILE_NAMES
from pages import read

HOSTILE = '<script>alert("x")</script>'


def material(sites=("A", "B", HOSTILE), classes=("lesion",), unit="px", show=None, true=None):
    """Return what a model measured: sites that draw 0, 4, 8, ... px outside, and one odd case."""
    numbers = range(1, len(classes) + 1)
    rows = [
        CaseRow(
            f"secret-{n}-{k}", site, c, 4 * n + value, 0.5, 0.9, True, True, 0.9 if k == 0 else 0.1
        )
        for n, site in enumerate(sites)
        for k, value in enumerate(rng(0, "looks", n).standard_normal(12))
        for c in numbers
    ]
    scale = Scale(unit)
    known = [by_site([one for one in rows if one.class_number == c]) for c in numbers]
    found = [{site: site_numbers(mine, scale) for site, mine in here.items()} for here in known]
    return Material("t", "a model", scale, classes, found, rows=rows, show=show, true=true or {})


def written(folder, **options):
    """Write an audit; return it, and the paths that may be shared and that may not."""
    found = material(**options)
    audit = build_audit(found)
    made = write_audit(folder, audit, looks_of(found), page_of(audit), found.show)
    return audit, made[:3], made[3:]


def test_files_and_what_they_hold(tmp_path):
    _, shared, own = written(tmp_path / "out")
    assert [path.name for path in shared] == ["audit.json", "audit.csv", "audit.html"]
    texts = [path.read_text("utf-8") for path in shared]
    assert not any("secret" in text for text in texts)
    assert HOSTILE not in texts[2]
    assert "&lt;script&gt;alert" in texts[2]
    findings = json.loads(texts[0])["findings"]
    verdicts = {"A": "smaller", "B": "about the same", HOSTILE: "larger"}
    assert {one["site"]: one["verdict"] for one in findings} == verdicts
    assert {one["site"]: one["verdict"] for one in csv.DictReader(StringIO(texts[1]))} == verdicts
    assert len(own) == 3
    for path in own:
        assert path.name == "second-look.csv"
        assert path.stat().st_mode & 0o077 == 0
        assert (tmp_path / "out" / "stays-at-the-site") in path.parents
    mine = next(path for path in own if path.parent.name == "A")
    rows = list(csv.DictReader(StringIO(mine.read_text("utf-8"))))
    assert {one["case"] for one in rows} == {f"secret-0-{k}" for k in range(12)}
    assert [one["case"] for one in rows if one["look_again"] == "yes"] == ["secret-0-0"]


def test_hostile_names_are_text_in_every_file(tmp_path):
    _, shared, own = written(tmp_path / "out", sites=tuple(HOSTILE_NAMES))
    page = read(shared[2].read_text("utf-8"))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert len(set(own)) == len(HOSTILE_NAMES)
    assert all(path.parents[2] == tmp_path / "out" for path in own)


def test_page_and_text_say_what_zero_is_the_unit_the_truth_and_each_class():
    audit = build_audit(material(classes=("liver", "tumour"), unit="mm", true={"A": 0, "B": 4}))
    text, page = text_of(audit), page_of(audit)
    assert [one.class_name for one in audit.overall] == ["liver", "tumour"]
    assert len(audit.findings) == 6
    assert "Who draws how: tumour" in page
    assert "the truth, which only simulations know" in page
    for said in ("tumour", "in mm", "larger", "The answer is relative: sites are compared with"):
        assert said in text
    assert "secret" not in text


def test_nothing_can_be_told_of_an_audit_of_nothing():
    audit = build_audit(material(sites=("A",)))
    assert audit.findings[0].verdict == "cannot tell"
    assert "no other site to compare it with" in page_of(audit)
    assert "cannot tell: A" in text_of(audit)


def test_each_site_has_a_page_of_its_odd_cases(tmp_path):
    """It shows pictures, so only its user may read it; the audit itself shows none."""
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 1
    show = lambda case: (np.full((64, 64, 1), 90, np.uint8), mask, np.roll(mask, 4, axis=0))
    _, shared, own = written(tmp_path / "out", sites=("A", "B", "C"), show=show)
    pages = [path for path in own if path.name == "second-look.html"]
    assert len(pages) == 3
    for number, page in enumerate(pages):
        assert page.stat().st_mode & 0o077 == 0
        text = page.read_text("utf-8")
        assert f"secret-{number}-0" in text
        assert f"secret-{number}-1<" not in text
        assert "suggested by the model" in text
        assert text.count("data:image") == 1
    assert "data:image" not in shared[2].read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")
def test_the_page_in_a_browser_is_sorted_read_off_and_filtered(tmp_path):
    names = [f"site-{n}" for n in range(5)]
    path = tmp_path / "audit.html"
    path.write_text(page_of(build_audit(material(sites=names))), encoding="utf-8")
    order = "[...document.querySelectorAll('tbody tr')].map(r => r.cells[0].innerText)"
    with Browser() as tab:
        tab.open(path)
        assert tab.run(order) == names
        tab.click("thead th:nth-child(3) button")
        assert tab.run(order) == names[::-1], "offsets: the largest first"
        tab.point_at("[data-site='site-4'] .dot")
        tip = tab.run("document.getElementById('tip').innerText")
        assert tip.startswith("site-4: draws ")
        assert "larger than the others" in tip
        tab.run("document.getElementById('filter').focus()")
        for letter in "e-2":
            tab.press(letter)
        shown = "[...document.querySelectorAll('tbody tr')].filter(r => !r.hidden).length"
        assert tab.run(shown) == 1
        assert tab.complaints() == []
        assert tab.requests() == []
