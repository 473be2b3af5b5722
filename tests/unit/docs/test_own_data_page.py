"""docs/how-to/own-data.md is what its script makes, and its example tree is what it says."""

import importlib.util
from pathlib import Path

import pytest

from feda3i.reading.listing import list_cases
from feda3i.reading.options import Options

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_own_data", DOCS / "make_own_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_structure_that_the_script_makes(maker):
    text = maker.PAGE.read_text("utf-8")
    assert maker.page(maker.read_page(text)) == text, "run: python docs/make_own_data.py"


def test_a_line_without_explanation_is_refused(maker):
    shown = maker.read_page(maker.PAGE.read_text("utf-8"))
    shown[0].append("something new")
    with pytest.raises(SystemExit, match="no explanation for the line 'something new'"):
        maker.page(shown)


def test_the_example_tree_is_read_as_the_page_shows(maker, tmp_path):
    maker.build_tree(tmp_path)
    listing, problems = list_cases(tmp_path, Options(size=64))
    assert {case.source for case in listing.cases} == {"anna", "mercy", "zoo"}
    assert len(listing.cases) == 18 + 16 + 15
    assert [p.name for p in problems] == ["zoo/case_07/image.png"]
