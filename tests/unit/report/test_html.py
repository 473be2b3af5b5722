"""The blocks of a page: nothing that is shown can become markup, and all of it can be read."""

import base64
import hashlib
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feda3i.report import html
from feda3i.report.axes import Axis, room
from feda3i.report.html import luminance, own_file, templates
from pages import HOSTILE, check_inert, read


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_wherever_it_stands(text):
    column = html.Column(text, hint=text)
    points = [html.Point(1, 2, text, site=text)]
    plane = html.plane(text, text, points, x_label=text, y_label=text, names=[text])
    lines = html.lines(text, text, [html.Series(text, [1, 2], [1, 2])], x_label=text, y_label=text)
    table = html.table(text, [column], [[text]], sites=[text])
    figure, notice = html.figure(plane, text, table), html.notice("bad", text, [text])
    markup = html.join([text, html.name(text), figure, lines, notice])
    page = html.page(text, [html.Section("a", text, markup, text)], subtitle=text, top=text)
    assert html.visible(text) in check_inert(page)
    assert html.name(html.text("a & b")) == "<bdi>a &amp; b</bdi>", "it is not escaped again"


@given(st.text())
def test_any_text_comes_back_as_it_is_shown(text):
    made = templates().from_string("<p title='{{ it }}'>{{ it }}</p>{{ it | as('class') }}")
    reader = read(made.render(it=text))
    assert "".join(reader.texts).startswith(html.visible(text))
    assert dict(reader.attributes)["title"] == html.visible(text)


def test_only_the_own_script_may_run():
    page = html.page("t", [])
    policy = re.search('content="(default-src [^"]*)"', page).group(1)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    script = re.search("<script>(.*)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{digest}" in policy
    assert not re.search(r"https?://", page), "no address of anything elsewhere"


def test_a_table_is_a_table():
    columns = [html.Column("site"), html.Column("Dice", "number")]
    reader = read(html.table("By site", columns, [["a", 0.5], ["b", None]], sites=["a", "b"]))
    assert reader.tags.count("tr") == 3
    scopes = [value for name, value in reader.attributes if name == "scope"]
    assert scopes == ["col", "col", "row", "row"]
    assert list(filter(None, map(str.strip, reader.texts))) == [
        *("By site", "site", "Dice", "a", "0.500", "b", "-")
    ]


def _contrast(*colours):
    rgb = (tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5)) for colour in colours)
    low, high = sorted(map(luminance, rgb))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(scheme):
    part = own_file("page.css").split("@media")[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", part))
    pairs = [(*pair, 4.5) for pair in product(("ink", "soft", "accent"), ("paper", "panel"))]
    for tone in ("good", "warn", "bad"):
        pairs += [(tone, f"{tone}-bg", 4.5), ("ink", f"{tone}-bg", 4.5)]
    pairs += [(f"s{k}", "paper", 3) for k in range(8)]
    for ink, ground, least in pairs:
        assert _contrast(colours[ink], colours[ground]) >= least, (ink, ground)


@given(st.floats(0, 1e6))
def test_numbers_in_coloured_cells_can_be_read(ratio):
    ground, ink = re.fullmatch("background:(#.{6});color:(#.*)", html.heat(ratio)).groups()
    assert _contrast(ground, "#000000" if ink == "#000" else "#ffffff") >= 4.5


def test_colours_of_the_scale_mean_more_and_less():
    assert html.heat(1.0) == html.heat(1.0000001)
    assert html.heat(4.0) == html.heat(100.0) != html.heat(2.0)
    assert html.heat(0.25) == html.heat(0.0) != html.heat(0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.booleans())
def test_every_value_has_a_place_within_its_axis(values, is_log):
    values = [abs(v) + 1e-6 for v in values] if is_log else values
    axis = Axis(room(values, is_log), (10, 90), is_log)
    places = [axis(v) for v in values]
    assert all(10 <= place <= 90 for place in places)
    assert [p for _, p in sorted(zip(values, places, strict=True))] == sorted(places)
    low, high = axis.values
    rounding = 1e-8 * (high - low) + 1e-11 * max(abs(low), abs(high))
    assert all(low - rounding <= tick <= high + rounding for tick in axis.ticks())


def test_ticks_are_round_numbers():
    assert Axis((0, 1), (0, 1)).ticks() == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert Axis((0.05, 3), (0, 1), True).ticks() == [0.05, 0.1, 0.2, 0.5, 1, 2]
