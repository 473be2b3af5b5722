"""Data sets by name: a :class:`feda3i.data.folder.Folder`, or a function that gives a federation.

A file of this package with ``DATASET = ...`` is found by its name.
"""

from __future__ import annotations

from pathlib import Path

from feda3i.errors import RecipeError
from feda3i.registry import Registry, modules_of

REGISTRY = Registry(
    kind="dataset",
    builtin={
        **modules_of("feda3i.datasets", "DATASET"),
        "arrays": "feda3i.datasets:arrays",
        "folder": "feda3i.data.folder:Folder",
        "synthetic-breast": "feda3i.synthetic.sets:synthetic_breast",
        "synthetic-skin": "feda3i.synthetic.sets:synthetic_skin",
        "synthetic-volumes": "feda3i.synthetic.sets:synthetic_volumes",
    },
    entry_points="feda3i.datasets",
)


def arrays() -> None:
    """Arrays in memory (``feda3i.federation_of_arrays``), which only the caller has.

    A run of such cases is named so in its recipe.
    """
    raise RecipeError(
        "the cases of this run were arrays in memory: pass them again as federation=..., "
        "or name a folder with --data"
    )


def is_data(path: Path) -> bool:
    """Return whether a path can be read as data: a folder, or a CSV table."""
    return path.is_dir() or (path.suffix.lower() in (".csv", ".tsv") and path.is_file())


def is_ours(name: str) -> bool:
    """Return whether a data set is built in, or a place on disk: those share their options."""
    known = name == "synthetic" or REGISTRY.canonical(name) in REGISTRY.builtin
    return known or (":" not in name and name not in REGISTRY.names())


def refuse_both(name: str) -> None:
    """Raise ``RecipeError`` if a name is that of a data set and of a folder here."""
    if Path(name).exists() and REGISTRY.canonical(name) in (*REGISTRY.names(), "synthetic"):
        raise RecipeError(
            f"data={name}: there is a data set '{name}' and, in this folder, '{name}' as well; "
            f"write data=./{name} for the one on disk, data.name={name} for the data set"
        )
