"""A data set of your own: one function with typed options that returns a federation.

This one reads a folder with one ``.npz`` file per site and ``test.npz`` for testing; each holds
``images`` ``(case, height, width, channel)`` and ``masks`` ``(case, height, width)``. Try it:

    feda3i run demo data=examples/own_dataset.py:npz_sites data.path=FOLDER noise=none
"""

from pathlib import Path

import numpy as np

import feda3i
from feda3i.extend import DataError, Federation


def npz_sites(*, path: Path, classes: tuple[str, ...] = ("lesion",)) -> Federation:
    """Return a site for every file of a folder, called after the file."""
    data = {file.stem: dict(np.load(file)) for file in sorted(path.glob("*.npz"))}
    test = data.pop("test", None)
    if test is None or not data:
        raise DataError(f"expected SITE.npz files and test.npz in '{path}', found {sorted(data)}")
    images, masks = (np.concatenate([d[key] for d in data.values()]) for key in ("images", "masks"))
    sites = [name for name, one in data.items() for _ in one["images"]]
    return feda3i.federation_of_arrays(images, masks, sites, test["images"], test["masks"], classes)
