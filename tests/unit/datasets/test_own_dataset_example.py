from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_files import plain_tree, save
from feda3i.datasets import REGISTRY
from feda3i.errors import DataError

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_dataset.py"


@pytest.fixture
def cells(tmp_path):
    root = plain_tree(tmp_path / "cells", 10, colour=False, height=32, width=32)
    for who, shift, count in (("crowd", 2, 10), ("expert", 0, 6)):
        for number in range(count):
            mask = np.asarray(Image.open(root / "masks" / f"case{number}.png"))
            save(root / "annotators" / who / f"case{number}.png", np.roll(mask, shift, axis=0))
    return root


def test_the_example_makes_a_site_of_every_annotator(cells):
    make = REGISTRY.get(f"{EXAMPLE}:annotators")
    federation = make(cells, test=3, size=32)
    assert federation.names() == ["crowd", "expert"]
    assert len(federation.test) == 3
    tested = set(federation.test.ids)
    for name in federation.names():
        index = federation.sites[name]
        site = federation.site(name)
        assert not tested & {case.split("/")[1] for case in site.ids}
        moved = np.roll(federation.clean_masks[index], 2 if name == "crowd" else 0, axis=1)
        np.testing.assert_array_equal(site.masks, moved)
    assert federation.train.digest() == make(cells, test=3, size=32).train.digest()
    with pytest.raises(DataError, match="too few"):
        make(cells, test=10, size=32)
