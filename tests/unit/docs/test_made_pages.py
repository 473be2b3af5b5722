"""Pages that are made from the code, or from the data in results/, are what their scripts make."""

import make_architecture
import make_commands
import make_keys
import make_methods
import make_own_data
import make_results
import pytest

from feda3i.errors import RecipeError
from feda3i.reading.listing import list_cases
from feda3i.reading.options import Options


@pytest.mark.parametrize("script", [make_commands, make_keys])
def test_a_page_is_made_from_the_code(script):
    assert script.PAGE.read_text("utf-8") == script.page(), f"run: python {script.__file__}"


def test_the_pages_of_methods_and_the_table_of_packages_are_made_from_the_code():
    made = make_methods.pages()
    assert set(make_methods.FOLDER.iterdir()) == set(made)
    for path, text in made.items():
        assert path.read_text("utf-8") == text, "run: python docs/make_methods.py"
    text = make_architecture.PAGE.read_text("utf-8")
    assert make_architecture.page(text) == text, "run: python docs/make_architecture.py"


def test_the_page_of_own_data_has_the_structure_that_the_script_makes():
    text = make_own_data.PAGE.read_text("utf-8")
    shown = make_own_data.read_page(text)
    assert make_own_data.page(shown) == text, "run: python docs/make_own_data.py"
    shown[0].append("something new")
    with pytest.raises(SystemExit, match="no explanation for the line 'something new'"):
        make_own_data.page(shown)


def test_the_example_tree_is_read_as_the_page_of_own_data_shows(tmp_path):
    make_own_data.build_tree(tmp_path)
    listing, problems = list_cases(tmp_path, Options(size=64))
    assert {case.source for case in listing.cases} == {"anna", "mercy", "zoo"}
    assert len(listing.cases) == 18 + 16 + 15
    assert [p.name for p in problems] == ["zoo/case_07/image.png"]


def test_pages_of_results_are_made_from_the_results():
    made = make_results.made()
    own = {make_results.TABLES / f"{name}.md": text for name, text in made.tables().items()}
    pages = make_results.pages(made)
    for path, text in {**pages, **own}.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run docs/make_results.py"
    assert set(own) == set(make_results.TABLES.iterdir())
    assert "It holds where the whole 95 % interval" in pages[make_results.PAGES[0]]


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((0.1, 2), "holds"), ((-1, 2), "not shown"), ((-2, -1), "loses"), (None, "one seed only")],
)
def test_an_interval_of_gains_is_judged(ends, verdict):
    assert make_results.judged(ends) == verdict


def test_prose_is_left_alone_and_blocks_are_filled():
    text = "Before.\n<!-- results: table3-small -->\nold\n<!-- end -->\nAfter.\n"
    page = make_results.Page({}, "images")
    filled = page.filled(text)
    assert filled == text.replace("old", "No runs yet: `feda3i bench table3-small`.")
    assert page.filled(filled) == filled
    with pytest.raises(RecipeError, match="found 'nothing'"):
        page.filled("<!-- results: nothing -->\n<!-- end -->")
