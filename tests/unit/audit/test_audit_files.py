"""Lists of cases stay at their sites; what may be shared names none of them."""

import csv
import re
from dataclasses import replace
from io import StringIO

import numpy as np

from feda3i.audit.assemble import build_audit, looks_of
from feda3i.audit.audit_page import page_of
from feda3i.audit.case_rows import CaseRow
from feda3i.audit.judge import Scale, site_numbers
from feda3i.audit.writing import text_of, write_audit
from feda3i.quality.objects import ObjectFinding
from feda3i.seeding import rng
from pages import HOSTILE as HOSTILE_NAMES
from pages import read


def measured(sites, classes=("lesion",), unit="px", true=None):
    """Return the audit and rows of sites that draw 0, 4, 8, ... px outside, with one odd case."""
    rows, found, scale = [], [{} for _ in classes], Scale(unit)
    for n, site in enumerate(sites):
        values = 4 * n + rng(0, "looks", n).standard_normal(12)
        for c, here in enumerate(found, 1):
            misfits = [0.9] + [0.1] * 11
            mine = [
                CaseRow(f"secret-{n}-{k}", site, c, value, 0.5, 0.9, True, True, misfits[k])
                for k, value in enumerate(values)
            ]
            here[site] = site_numbers(12, mine, scale)
            rows += mine
    words = {"title": "t", "how": "a model", "true": true or {}}
    return build_audit(scale, classes, found, **words), rows


def test_files_and_what_they_hold_and_a_page_of_odd_cases_per_site(tmp_path):
    """Pages of odd cases show pictures, so only their user may read them; the audit shows none."""
    audit, rows = measured(("A", "B", *HOSTILE_NAMES))
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = 1
    show = lambda case: (np.full((64, 64, 1), 90, np.uint8), mask, np.roll(mask, 4, axis=0))
    made = write_audit(tmp_path / "out", audit, looks_of(rows, "px"), page_of(audit), show)
    shared, own = made[:2], made[2:]
    assert [path.name for path in shared] == ["audit.csv", "audit.html"]
    table, page = (path.read_text("utf-8") for path in shared)
    assert "secret" not in table + page
    verdicts = {one["site"]: one["verdict"] for one in csv.DictReader(StringIO(table))}
    assert (verdicts["A"], verdicts[HOSTILE_NAMES[-1]]) == ("smaller", "larger")
    found = read(page)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert "data:image" not in page
    pages, tables = ([p for p in own if p.name == f"second-look.{e}"] for e in ("html", "csv"))
    assert len(set(pages)) == len(set(tables)) == len(own) / 2 == 2 + len(HOSTILE_NAMES)
    for path in own:
        assert path.stat().st_mode & 0o077 == 0
        assert path.parents[1] == tmp_path / "out" / "stays-at-the-site"
    texts = [path.read_text("utf-8") for path in pages]
    for text in texts:
        assert "suggested by the model" in text
        assert text.count("data:image") == 1
    named = {case for text in texts for case in re.findall(r"secret-\d+-\d+", text)}
    assert named == {f"secret-{number}-0" for number in range(len(pages))}
    mine = next(path for path in tables if path.parent.name == "A")
    rows = list(csv.DictReader(StringIO(mine.read_text("utf-8"))))
    assert {one["case"] for one in rows} == {f"secret-0-{k}" for k in range(12)}
    assert [one["case"] for one in rows if one["look_again"] == "yes"] == ["secret-0-0"]


def test_page_and_text_say_what_zero_is_the_unit_the_truth_each_class_and_what_is_unknown():
    names = ("A", "B", "C")
    audit, _ = measured(names, ("liver", "tumour"), "mm", {"A": 0, "B": 4})
    text, page = text_of(audit), page_of(audit)
    assert [one.class_name for one in audit.overall] == ["liver", "tumour"]
    assert len(audit.findings) == 6
    assert "Who draws how: tumour" in page
    assert "the truth, which only simulations know" in page
    for said in ("tumour", "in mm", "larger", "The answer is relative: sites are compared with"):
        assert said in text
    assert "secret" not in text
    empty = replace(audit, objects=(ObjectFinding("A", "empty", is_flagged=True),))
    for shown in (text_of(empty), page_of(empty)):
        assert "sites differ in size: feda3i redraw" in shown
        assert "cases are left empty: look at them again" in shown
    audit, _ = measured(("A",))
    assert audit.what_helps == []
    assert audit.findings[0].verdict == "cannot tell"
    assert "no other site to compare it with" in page_of(audit)
    assert "cannot tell: A" in text_of(audit)
