"""The audit's page in a real browser: opened from disk, sorted, read off, filtered; no request."""

import pytest

from browser import Browser, find_browser
from feda3i.audit.assemble import build_audit
from feda3i.audit.audit_page import page_of
from feda3i.audit.case_rows import CaseRow
from feda3i.audit.sources import Material
from feda3i.seeding import rng

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def tab(tmp_path):
    rows = [
        CaseRow(f"case-{k}", f"site-{n}", 1, {"contour": 3 * n + value}, 0.5, 0.9, True, True)
        for n in range(5)
        for k, value in enumerate(rng(0, "browser", n).standard_normal(12))
    ]
    found = Material("t", "a model", "px", 1.0, ("lesion",), tuple(rows))
    path = tmp_path / "audit.html"
    path.write_text(page_of(build_audit(found)), encoding="utf-8")
    with Browser() as browser:
        browser.open(path)
        yield browser
        assert browser.complaints() == []
        assert browser.requests() == []


def test_sort_point_and_filter(tab):
    order = "[...document.querySelectorAll('tbody tr')].map(r => r.cells[0].innerText)"
    names = [f"site-{n}" for n in range(5)]
    assert tab.run(order) == names
    tab.click("thead th:nth-child(3) button")
    assert tab.run(order) == names[::-1], "offsets: the largest first"
    tab.point_at("[data-site='site-4'] .dot")
    tip = tab.run("document.getElementById('tip').innerText")
    assert tip.startswith("site-4: draws ")
    assert "larger than the middle of the sites" in tip
    tab.run("document.getElementById('filter').focus()")
    for letter in "e-2":
        tab.press(letter)
    shown = "[...document.querySelectorAll('tbody tr')].filter(r => !r.hidden).length"
    assert tab.run(shown) == 1
