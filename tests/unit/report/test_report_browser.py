"""The report in a real browser: opened from disk, by pointer, by keyboard, without scripts."""

import re
from itertools import pairwise

import pytest

from browser import Browser, find_browser
from fake_runs import fake_run
from feda3i.report.build import write_report
from feda3i.report.runs import read_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine"),
]
TAB, ENTER, RIGHT, ESCAPE = 9, 13, 39, 27


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    runs = [
        fake_run(folder / f"{m}-{s}", method=m, seed=s, sites=12, start=0.5 + 0.01 * s)
        for m in ("fedavg", "feda3i")
        for s in range(2)
    ]
    write_report(list(map(read_run, runs)), folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def tab(page):
    with Browser() as browser:
        browser.open(page)
        yield browser
        assert browser.complaints() == []
        assert browser.requests() == []


def column(tab, table, number):
    rows = f"[...document.querySelectorAll('{table} tbody tr')]"
    return tab.run(f"{rows}.map(r => r.cells[{number}].innerText)")


def tip(tab):
    return tab.run("document.getElementById('tip').innerText")


def test_a_table_sorts_by_a_click_on_its_heading(tab):
    table = "#sites table"
    before = column(tab, table, 0)
    button = f"{table} thead th:nth-child(2) button"
    tab.click(button)
    values = [float(v) for v in column(tab, table, 1)]
    assert values == sorted(values, reverse=True), "numbers: the largest first"
    head = f"document.querySelector('{table} thead th:nth-child(2)').ariaSort"
    assert tab.run(head) == "descending"
    tab.click(button)
    values = [float(v) for v in column(tab, table, 1)]
    assert values == sorted(values)
    tab.click(f"{table} thead th:first-child button")
    assert column(tab, table, 0) == sorted(before)


def test_a_dot_tells_its_values(tab):
    assert tab.run("document.getElementById('tip').hidden")
    tab.point_at("#survey .dot[data-site='site-12']")
    told = r"site-12: draws larger; inside 0\.900, outside 0\.300; true mu \+6\.0 px"
    assert re.match(told, tip(tab))
    tab.press("Escape", ESCAPE)
    assert tab.run("document.getElementById('tip').hidden")


def test_curves_are_read_off_with_arrow_keys(tab):
    tab.run("document.querySelector('#learning svg').focus()")
    tab.press("ArrowLeft", 37)
    assert tip(tab).splitlines()[:2] == ["round 3", "fedavg, 2 seeds: 0.565"]
    tab.press("ArrowRight", RIGHT)
    assert tip(tab).startswith("round 4")


def test_sites_are_filtered_in_tables_and_plots(tab):
    tab.run("document.getElementById('filter').focus()")
    for letter in "E-07":
        tab.press(letter)
    rows = "[...document.querySelectorAll('#sites tbody tr')].filter(r => !r.hidden).length"
    assert tab.run(rows) == 1
    assert tab.run("document.getElementById('found').innerText") == "1 of 12"
    dots = "[...document.querySelectorAll('#survey figure .dot[data-site]:not(.faded)')]"
    assert tab.run(f"[...new Set({dots}.map(d => d.dataset.site))]") == ["site-07"]
    tab.run("document.getElementById('filter').value = ''")
    tab.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert tab.run(rows) == 12


def test_everything_is_reached_with_the_tab_key(tab):
    """The first stop skips the menu; all controls can be reached in the order they are read."""
    tab.press("Tab", TAB)
    assert tab.run("document.activeElement.innerText") == "Skip to the content"
    ordered = "document.querySelectorAll('[tabindex]:not([tabindex=\"0\"]):not(.dot)').length"
    assert tab.run(ordered) == 0
    stops = "document.querySelectorAll('#survey figure:first-of-type .dot[tabindex=\"0\"]').length"
    plots = "document.querySelectorAll('#survey figure:first-of-type svg.plot').length"
    assert tab.run(stops) == tab.run(plots), "one stop per plot, not one per site"
    tab.run("document.querySelector('#survey .dot').focus()")
    first = tab.run("document.activeElement.ariaLabel")
    tab.press("ArrowRight", RIGHT)
    second = tab.run("document.activeElement.ariaLabel")
    assert first != second
    assert tip(tab) == second
    tab.run("document.querySelector('#sites thead button').focus()")
    tab.press("Enter", ENTER)
    assert tab.run("document.querySelector('#sites thead th').ariaSort") is not None


def test_what_a_screen_reader_hears(tab):
    """Every picture has a name, every table a caption and headings, headings skip no level."""
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    seen = [n for n in tree if not n["ignored"]]
    for role in ("image", "img", "table", "button", "link", "searchbox"):
        for node in (n for n in seen if n["role"]["value"] == role):
            assert node.get("name", {}).get("value"), node
    assert tab.run("document.querySelectorAll('table:not(:has(caption))').length") == 0
    levels = tab.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert tab.run("document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_every_screen_by_day_and_by_night(page, width, dark, tmp_path):
    with Browser(width=width, dark=dark) as browser:
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "no sideways"
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is not dark
        browser.screenshot(tmp_path / "s.png")
        assert browser.complaints() == []


def test_it_can_be_read_without_scripts(page):
    with Browser(scripts=False) as browser:
        browser.open(page)
        hidden = browser.call("DOM.getDocument")["root"]["nodeId"]
        field = browser.call("DOM.querySelector", nodeId=hidden, selector=".filter")["nodeId"]
        browser.call("CSS.enable")
        style = browser.call("CSS.getComputedStyleForNode", nodeId=field)
        shown = {one["name"]: one["value"] for one in style["computedStyle"]}
        assert shown["display"] == "none", "what needs scripts is not offered"
        dot = browser.call("DOM.querySelector", nodeId=hidden, selector="#survey .dot title")
        text = browser.call("DOM.getOuterHTML", nodeId=dot["nodeId"])["outerHTML"]
        assert "site-" in text, "the browser's own tips tell the values"
        tables = browser.call("DOM.querySelectorAll", nodeId=hidden, selector="table")["nodeIds"]
        assert len(tables) > 6
        assert browser.complaints() == []
        assert browser.requests() == []
