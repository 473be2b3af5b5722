from pathlib import Path

import numpy as np
import pytest

from data_files import lesion
from feda3i import recipe
from feda3i.errors import DataError, RecipeError
from feda3i.simulation.federation import load_data

EXAMPLE = f"{Path(__file__).parents[3] / 'examples' / 'own_dataset.py'}:npz_sites"


def load(folder, *more):
    return load_data(recipe.load("demo", [f"data={EXAMPLE}", f"data.path={folder}", *more]))


def test_the_example_makes_a_site_of_every_file(tmp_path):
    drawn = {"north": range(3), "south": range(3, 7), "test": range(7, 9)}
    cases = {name: [lesion(seed, 32, 32) for seed in seeds] for name, seeds in drawn.items()}
    for name, own in cases.items():
        images, masks = (np.stack(part) for part in zip(*own, strict=True))
        np.savez(tmp_path / f"{name}.npz", images=images, masks=masks.astype(np.uint8))
    federation = load(tmp_path, 'data.classes=["mole"]')
    assert federation.names() == ["north", "south"]
    assert federation.classes == ("mole",)
    assert len(federation.test) == 2
    for name in federation.names():
        site = federation.site(name)
        np.testing.assert_array_equal(site.images, [image for image, _ in cases[name]])
        np.testing.assert_array_equal(site.masks, [mask for _, mask in cases[name]])
    with pytest.raises(RecipeError, match="no option 'pat', did you mean 'path'"):
        load(tmp_path, "data.pat=1")
    (tmp_path / "test.npz").unlink()
    with pytest.raises(DataError, match="found \\['north', 'south'\\]"):
        load(tmp_path)
