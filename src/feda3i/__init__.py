"""Federated medical image segmentation when the annotations are noisy.

What is listed here is the public API; everything else may change without notice. Names are loaded
when they are first used, so ``import feda3i`` imports neither torch nor numpy.

>>> import tempfile
>>> from pathlib import Path
>>> import feda3i
>>> small = ["data.size=32", "data.sites=2", "data.cases=2", "data.test=2", "model.width=4"]
>>> recipe = feda3i.recipe.load(None, ["rounds=1", "train.epochs=1", "engine.workers=1", *small])
>>> folder = Path(tempfile.mkdtemp()) / "run"
>>> feda3i.run(recipe, folder).path == folder
True
>>> feda3i.load_run(folder).predictor().format.shape
(32, 32)
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from feda3i import extend, losses, methods, metrics, noise, quality, recipe
    from feda3i.audit.assemble import audit_arrays
    from feda3i.core.cases import Cases, Federation
    from feda3i.core.predictor import Predictor
    from feda3i.engine.results import load_run
    from feda3i.engine.run import resume, run
    from feda3i.pieces import average, federation_of_arrays, stages_of, survey, weights_of

_PLACES = {
    "feda3i.audit.assemble": ("audit_arrays",),
    "feda3i.core.cases": ("Cases", "Federation"),
    "feda3i.core.predictor": ("Predictor",),
    "feda3i.engine.results": ("load_run",),
    "feda3i.engine.run": ("resume", "run"),
    "feda3i.pieces": ("average", "federation_of_arrays", "stages_of", "survey", "weights_of"),
}
_MODULES = ("extend", "losses", "methods", "metrics", "noise", "quality", "recipe")

__all__ = ["Cases", "Federation", "Predictor", "audit_arrays", "average", "extend"]
__all__ += ["federation_of_arrays", "load_run", "losses", "methods", "metrics", "noise", "quality"]
__all__ += ["recipe", "resume", "run", "stages_of", "survey", "weights_of"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"feda3i.{name}")
    for place, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(place), name)
    raise AttributeError(f"module 'feda3i' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
