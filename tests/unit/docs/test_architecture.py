"""Imports go one way."""

import subprocess
import sys

import make_architecture

import feda3i


def test_no_import_goes_up():
    assert make_architecture.wrong() == []


def test_what_is_wrong_is_named_wherever_it_stands(tmp_path, monkeypatch):
    source = tmp_path / "feda3i"
    for layer in ("core", "methods", "attic"):
        (source / layer).mkdir(parents=True)
        (source / layer / "__init__.py").write_text("")
    (source / "methods" / "base.py").write_text("from feda3i.core import site\n")
    (source / "core" / "site.py").write_text(
        "def f():\n    from feda3i.methods.base import Method\n"
        "PLACE = 'feda3i.methods.base:Method'\n"
        "if TYPE_CHECKING:\n    import feda3i.methods.base\n"
    )
    monkeypatch.setattr(make_architecture, "SOURCE", source)
    first, *lines = make_architecture.wrong()
    assert first == "'attic' is not in LAYERS of make_architecture.py"
    assert len(lines) == 3
    assert all("feda3i.core.site imports feda3i.methods.base" in line for line in lines)


def test_import_loads_nothing_heavy():
    code = "import feda3i, sys; print(*sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_public_names_are_there():
    for name in feda3i.__all__:
        assert getattr(feda3i, name).__doc__
        assert name in dir(feda3i)
    assert not hasattr(feda3i, "nothing")
