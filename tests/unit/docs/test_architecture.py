"""Imports go one way, and the page that shows them is made from the code."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import feda3i

SCRIPT = Path(__file__).parents[3] / "docs" / "make_architecture.py"


def script():
    spec = importlib.util.spec_from_file_location("make_architecture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_import_goes_up():
    assert script().wrong() == []


def test_the_page_is_made_from_the_code():
    found = script()
    text = found.PAGE.read_text("utf-8")
    assert found.page(text) == text, "run: python docs/make_architecture.py"


def test_an_import_that_goes_up_is_named_wherever_it_stands(tmp_path):
    found = script()
    source = tmp_path / "feda3i"
    for layer in ("core", "methods"):
        (source / layer).mkdir(parents=True)
        (source / layer / "__init__.py").write_text("")
    (source / "methods" / "base.py").write_text("from feda3i.core import site\n")
    (source / "core" / "site.py").write_text(
        "def f():\n    from feda3i.methods.base import Method\n"
        "PLACE = 'feda3i.methods.base:Method'\n"
        "if TYPE_CHECKING:\n    import feda3i.methods.base\n"
    )
    found.SOURCE = source
    lines = found.wrong()
    assert len(lines) == 3
    assert all("feda3i.core.site imports feda3i.methods.base" in line for line in lines)


def test_a_package_without_a_place_is_named(tmp_path):
    found = script()
    (tmp_path / "feda3i" / "attic").mkdir(parents=True)
    (tmp_path / "feda3i" / "attic" / "box.py").write_text("")
    found.SOURCE = tmp_path / "feda3i"
    assert found.wrong() == ["'attic' is not in LAYERS of make_architecture.py"]


def test_import_loads_nothing_heavy():
    code = "import feda3i, sys; print(*sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_public_names_are_there():
    for name in feda3i.__all__:
        assert getattr(feda3i, name).__doc__
        assert name in dir(feda3i)
    assert not hasattr(feda3i, "nothing")
