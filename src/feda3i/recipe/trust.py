"""What a file may make this program run: what is installed, never code that the file names.

A recipe that a user hands to ``feda3i run`` is the user's word, as a script is. A model file or the
folder of a run may come from anywhere: the plug-ins that they name are loaded only if the user says
so (``--trust-code``).
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import accumulate
from pathlib import Path

from feda3i.errors import RunError
from feda3i.recipe import Recipe
from feda3i.registry import Registry


@dataclass(frozen=True)
class Code:
    """A plug-in that a recipe names, and the file that loading it will execute, if it is found."""

    section: str
    name: str
    file: Path | None

    def sha256(self) -> str:
        """Return the hash of the file, or an empty string if there is none to read."""
        try:
            return hashlib.sha256(self.file.read_bytes()).hexdigest() if self.file else ""
        except OSError:
            return ""

    def __str__(self) -> str:
        return f"{self.section} '{self.name[:80]}'"


def named_code(recipe: Recipe) -> list[Code]:
    """Return the plug-ins that a recipe names; nothing is imported to find out."""
    found = []
    for section, registry in registries().items():
        name = str(getattr(recipe, section).name)
        if registry.is_code(name):
            found.append(Code(section, name, _file_of(name.rpartition(":")[0])))
    return found


def check_trust(recipe: Recipe, source: Path, trust_code: bool) -> None:
    """Raise ``RunError`` if a file that is only data names code and the user did not say yes."""
    code = named_code(recipe)
    if code and not trust_code:
        raise RunError(
            f"'{source}' names code to run: {', '.join(map(str, code))}. Files are data here and "
            f"run only what is installed; if you know this code and trust it, add --trust-code"
        )


def announce(recipe: Recipe) -> None:
    """Say on standard error which files of a recipe's own will be executed."""
    for code in named_code(recipe):
        where = code.file or "a module of Python itself"
        print(f"{code.section}: runs the code of {where}", file=sys.stderr)


def registries() -> Mapping[str, Registry]:
    """Return what is known by name, by the section of a recipe that names it."""
    from feda3i import methods, models, noise
    from feda3i.data.sets import REGISTRY as DATASETS

    return {
        "data": DATASETS,
        "noise": noise.REGISTRY,
        "model": models.REGISTRY,
        "method": methods.REGISTRY,
    }


def _file_of(place: str) -> Path | None:
    """Return the file of ``file.py`` or ``package.module`` without importing its package."""
    if place.endswith(".py"):
        return Path(place).expanduser().resolve()
    spec, folders = None, None
    for name in accumulate(place.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, folders)
        folders = spec.submodule_search_locations or [] if spec else []
    return Path(spec.origin) if spec and spec.origin else None
