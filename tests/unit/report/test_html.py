"""The blocks of a page: nothing that is shown can become markup, and all of it can be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feda3i.report import html
from feda3i.report.axes import Axis, room
from feda3i.report.html import luminance, own_file, templates
from pages import HOSTILE, read


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_wherever_it_stands(text):
    column = html.Column(text, hint=text)
    points = [html.Point(1, 2, text, site=text)]
    plane = html.plane(text, text, points, x_label=text, y_label=text, names=[text])
    lines = html.lines(text, text, [html.Series(text, [1, 2], [1, 2])], x_label=text, y_label=text)
    table = html.table(text, [column], [[text]], sites=[text])
    markup = html.join(
        [
            text,
            html.name(text),
            html.figure(plane, text, table),
            lines,
            html.notice("bad", text, [text]),
        ]
    )
    page = html.page(text, [html.Section("a", text, markup, text)], subtitle=text, top=text)
    reader = read(page)
    assert reader.tags.count("script") == 1, "the page's own"
    assert "img" not in reader.tags
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    shown = "".join(reader.texts)
    assert html.visible(text) in shown
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", page)


@given(st.text())
def test_any_text_comes_back_as_it_is_shown(text):
    made = templates().from_string("<p title='{{ it }}'>{{ it }}</p>{{ it | as('class') }}")
    reader = read(made.render(it=text))
    assert "".join(reader.texts).startswith(html.visible(text))
    assert dict(reader.attributes)["title"] == html.visible(text)


def test_what_is_markup_already_is_not_escaped_again():
    assert html.name(html.text("a & b")) == "<bdi>a &amp; b</bdi>"


def test_only_the_own_script_may_run():
    page = html.page("t", [])
    policy = re.search('content="(default-src [^"]*)"', page).group(1)
    assert "default-src &#39;none&#39;" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    script = re.search("<script>(.*)</script>", page, re.DOTALL).group(1)
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"sha256-{digest}" in policy
    assert not re.search(r"https?://", page), "no address of anything elsewhere"


def test_a_table_is_a_table():
    columns = [html.Column("site"), html.Column("Dice", "number")]
    reader = read(html.table("By site", columns, [["a", 0.5], ["b", None]], sites=["a", "b"]))
    assert reader.tags.count("tr") == 3
    assert [value for name, value in reader.attributes if name == "scope"] == [
        *("col", "col"),
        *("row", "row"),
    ]
    assert [t for t in map(str.strip, reader.texts) if t] == [
        "By site",
        "site",
        "Dice",
        "a",
        "0.500",
        "b",
        "-",
    ]


def _contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _rgb(colour):
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def _variables():
    """Return the colours of the page, light and dark."""
    css = own_file("page.css")
    parts = {"light": css.partition("@media")[0], "dark": css.split("@media")[1]}
    return {k: dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for k, part in parts.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme):
    colours = {name: _rgb(value) for name, value in _variables()[scheme].items()}
    for ink in ("ink", "soft", "accent"):
        for ground in ("paper", "panel"):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for tone in ("good", "warn", "bad"):
        assert _contrast(colours[tone], colours[f"{tone}-bg"]) >= 4.5, tone
        assert _contrast(colours["ink"], colours[f"{tone}-bg"]) >= 4.5, tone
    for k in range(8):
        assert _contrast(colours[f"s{k}"], colours["paper"]) >= 3, f"line {k}"


@given(st.floats(0, 1e6))
def test_numbers_in_coloured_cells_can_be_read(ratio):
    ground, ink = re.fullmatch("background:(#.{6});color:(#.*)", html.heat(ratio)).groups()
    assert _contrast(_rgb(ground), _rgb("#000000" if ink == "#000" else "#ffffff")) >= 4.5


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
