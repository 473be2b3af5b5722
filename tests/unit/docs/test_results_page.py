"""The pages of results hold what the files under results/ say."""

import importlib.util
import re
from pathlib import Path

import pytest

from feda3i.errors import RecipeError

DOCS = Path(__file__).parents[3] / "docs"
SPEC = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
make_results = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_results)
Page = make_results.Page


def test_pages_of_results_are_made_from_the_results():
    made = make_results.made()
    own = {make_results.TABLES / f"{name}.md": text for name, text in made.tables().items()}
    for path, text in {**make_results.pages(made), **own}.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run docs/make_results.py"
    assert set(own) == set(make_results.TABLES.iterdir())


def test_a_page_says_where_the_method_gains_and_what_people_reach():
    text = make_results.pages(make_results.made())[DOCS / "results.md"]
    first = text.split("\n\n")[1]
    assert "It holds where the whole 95 % interval" in first
    assert "SKIN N_E CE" in first.partition("**Holds**")[2].partition("**Not shown**")[0]
    assert text.count(make_results.HUMANS) > 3


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((0.1, 2), "holds"), ((-1, 2), "not shown"), ((-2, -1), "loses"), (None, "one seed only")],
)
def test_an_interval_of_gains_is_judged(ends, verdict):
    assert make_results.judged(ends) == verdict


def test_every_figure_of_the_pages_is_there():
    shown = [
        (path, name)
        for path in make_results.PAGES
        for name in re.findall(r"\((images/results/[^)]+)\)", path.read_text(encoding="utf-8"))
    ]
    assert len(shown) > 3
    for path, name in shown:
        assert (DOCS / name).is_file(), f"{path.name} shows {name}: run docs/make_results.py"


def test_prose_is_left_alone_and_blocks_are_filled():
    text = "Before.\n<!-- results: table3-small -->\nold\n<!-- end -->\nAfter.\n"
    filled = Page({}, "images").filled(text)
    assert filled == text.replace("old", "No runs yet: `feda3i bench table3-small`.")
    assert Page({}, "images").filled(filled) == filled


def test_a_block_of_no_grid_is_refused():
    with pytest.raises(RecipeError, match="found 'nothing'"):
        Page({}, "images").filled("<!-- results: nothing -->\n<!-- end -->")
