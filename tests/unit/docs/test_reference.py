import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_pages_of_methods_are_made_from_the_cards():
    spec = importlib.util.spec_from_file_location("make_methods", DOCS / "make_methods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.pages()
    assert set(module.FOLDER.iterdir()) == set(made)
    for path, text in made.items():
        assert path.read_text("utf-8") == text, "run: python docs/make_methods.py"


def test_the_page_of_commands_is_made_from_the_command_line():
    spec = importlib.util.spec_from_file_location("make_commands", DOCS / "make_commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/make_commands.py"
