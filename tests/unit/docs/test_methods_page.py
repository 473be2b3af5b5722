import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_methods_page_is_made_from_the_cards():
    spec = importlib.util.spec_from_file_location("make_methods", DOCS / "make_methods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "run: python docs/make_methods.py"
