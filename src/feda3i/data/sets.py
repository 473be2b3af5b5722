"""Data sets by name: a ``Folder``, or a function that gives a federation."""

from feda3i.errors import RecipeError
from feda3i.registry import Registry

REGISTRY = Registry(
    kind="dataset",
    builtin={
        "arrays": "feda3i.data.sets:arrays",
        "breast": "feda3i.data.breast:Breast",
        "folder": "feda3i.data.folder:Folder",
        "isic2017": "feda3i.data.isic2017:Isic2017",
        "synthetic-breast": "feda3i.synthetic.federations:synthetic_breast",
        "synthetic-skin": "feda3i.synthetic.federations:synthetic_skin",
        "synthetic-volumes": "feda3i.synthetic.federations:synthetic_volumes",
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


def is_ours(name: str) -> bool:
    """Return whether a data set is built in, or a place on disk: those share their options."""
    known = name == "synthetic" or REGISTRY.canonical(name) in REGISTRY.builtin
    return known or (":" not in name and name not in REGISTRY.names())
