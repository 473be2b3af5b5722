"""One name, one meaning: no two modules, classes or functions share a name by accident."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "feda3i"

ALLOWED = {
    # A command has the name of the package or module that does its work.
    *("audit", "bench", "export", "noise", "redraw", "report", "run"),
    "tables",
    *("FedA3I", "Redraw"),  # the method, and the same as a strategy of Flower
    "feda3i",  # the library has the name of the method
    "transport",  # one interface, for worker processes and for Flower
}


def defined(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and file of every module, class and public function of a tree."""
    for file in sorted(source.rglob("*.py")):
        place = file.relative_to(source).as_posix()
        yield "module", file.parent.name if file.stem == "__init__" else file.stem, place
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield "class", node.name, place
            # In commands/ functions have the names of what they call.
            elif isinstance(node, ast.FunctionDef) and not place.startswith("commands/"):
                yield "function", node.name, place


def shared(source: Path) -> dict[str, set[str]]:
    """Return the names that modules, classes or functions of several files have in common."""
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, name, place in defined(source):
        places[kind, name].add(place)
    return {
        name: found
        for (_, name), found in places.items()
        if len(found) > 1 and not name.startswith("_") and name != "main"
    }


def test_no_name_has_two_meanings_and_no_exception_is_out_of_date():
    found = shared(SOURCE)
    assert not found.keys() - ALLOWED, "rename one of each, or say in ALLOWED why both are one"
    assert not ALLOWED - found.keys()


def test_a_second_meaning_is_named(tmp_path):
    for room in ("core", "report"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "wire.py").write_text("class Wire: ...\ndef check(): ...\n")
    assert set(shared(tmp_path)) == {"wire", "Wire", "check"}
