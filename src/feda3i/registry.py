"""Find methods, data sets, noise models and networks by name.

Built-in things are found by the name of their file, so adding one means adding one file; nothing
is imported before it is asked for. Plug-ins come from ``path/to/file.py:Name``,
``package.module:name`` or from entry points (``feda3i.methods``, ``feda3i.datasets``,
``feda3i.noise``, ``feda3i.models``).
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from feda3i.errors import FedA3IError, RecipeError, nearest, summary, unknown

_PLUGINS: set[str] = set()
"""Names of the modules that were loaded as plug-ins: an error inside them is not ours."""


@dataclass(frozen=True)
class Registry:
    """Names of one kind of thing and where each lives (``"package.module:attribute"``)."""

    kind: str
    builtin: Mapping[str, str]
    entry_points: str

    def names(self) -> list[str]:
        """Return all names that can be used without a file or module path."""
        found = _points(self.entry_points)
        return sorted({*self.builtin, *(point.name for point in found)})

    def get(self, name: str) -> Any:
        """Return the thing with this name; a path with a colon is loaded as a plug-in."""
        if ":" in name:
            return load_object(name, self.kind)
        key = self.canonical(name)
        if key in self.builtin:
            return load_object(self.builtin[key], self.kind)
        for point in _points(self.entry_points):
            if point.name == key:
                _PLUGINS.add(point.module)
                return _guarded(point.load, self.kind, name)
        raise unknown(self.kind, name, self.names(), "; run 'feda3i list' for all names")

    def is_code(self, name: str) -> bool:
        """Return whether a name stands for a file or module of Python and not for a thing known."""
        return ":" in name and name not in self.names()

    def canonical(self, name: str) -> str:
        """Return the spelling used in tables: ``nr_dice`` and ``NR-Dice`` are both ``nr-dice``."""
        return name if ":" in name else name.lower().replace("_", "-")


@cache
def _points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return what other packages offer; looked up once, since it reads every package's files."""
    return tuple(importlib.metadata.entry_points(group=group))


def load_object(path: str, kind: str) -> Any:
    """Load ``file.py:Name`` or ``package.module:name``."""
    place, _, attribute = path.rpartition(":")
    if not place.strip(".") or place.startswith(".") or not attribute:
        raise RecipeError(
            f"expected {kind} as 'file.py:Name' or 'package.module:name', found '{path}'"
        )
    load = _load_file if place.endswith(".py") else importlib.import_module
    module = _guarded(partial(load, place), kind, place)
    if not module.__name__.startswith("feda3i."):
        _PLUGINS.add(module.__name__)
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise RecipeError(f"{place} has no '{attribute}'{nearest(attribute, public)}")
    return getattr(module, attribute)


def is_plugin(module: str) -> bool:
    """Tell whether a module of this name was loaded as a plug-in."""
    return module in _PLUGINS


def _guarded(load: Callable[[], Any], kind: str, name: str) -> Any:
    """Return what a plug-in's code loads; whatever goes wrong there is reported as its error."""
    try:
        return load()
    except (FedA3IError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        what = f"there is no module '{name}'; is its package installed?"
        if not (error.name and name.startswith(error.name)):
            what = f"'{name}' needs the package '{error.name}', which is not installed"
            what += " (MONAI's: pip install 'feda3i[monai]')"
        raise RecipeError(f"{kind}: {what}") from None
    except (Exception, SystemExit) as error:  # a plug-in may call exit()
        raise RecipeError(f"{kind}: '{name}' cannot be loaded: {summary(error)}") from error


def declares(function: Any, kind: type) -> bool:
    """Return whether a function says that it returns a kind of thing.

    >>> def make() -> int: ...
    >>> declares(make, int), declares(make, str), declares(print, int)
    (True, False, False)
    """
    made = getattr(function, "__annotations__", {}).get("return")
    if isinstance(made, type):
        return issubclass(made, kind)
    return str(made).rpartition(".")[2] == kind.__name__


def _load_file(place: str) -> ModuleType:
    file = Path(place).expanduser().resolve()
    if not file.is_file():
        raise RecipeError(f"there is no file '{place}'")
    # The name carries the path, so that two files called method.py do not shadow each other, and is
    # registered in sys.modules because dataclasses look their module up there.
    name = f"feda3i_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # since its name ends with .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def modules_of(package: str, attribute: str) -> dict[str, str]:
    """Return ``{file name: "package.module:attribute"}`` for a package without importing it."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("[a-z]*.py"))
    stems = [file.stem for file in files if f"\n{attribute} = " in file.read_text("utf-8")]
    return {s.replace("_", "-"): f"{package}.{s}:{attribute}" for s in stems}
