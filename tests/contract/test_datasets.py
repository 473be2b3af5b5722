"""What every data set must do; one that reads a folder has a line in ``made``."""

import hashlib

import numpy as np
import pytest
from PIL import Image

from feda3i.data.sets import REGISTRY
from feda3i.seeding import rng
from feda3i.synthetic.federations import breast_case, skin_case

SITES, CASES, TEST, SIZE = 3, 2, 3, 32
COMMON = {"sites": SITES, "cases": CASES, "test": TEST, "size": SIZE}


def write_cases(folder, draw, numbers):
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True)
    for i in numbers:
        image, mask = draw(rng(0, "files", i), 40)
        Image.fromarray(image.squeeze()).save(folder / "images" / f"case_{i:03d}.png")
        Image.fromarray(mask * 255).save(folder / "masks" / f"case_{i:03d}.png")


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Return a function that makes a small federation of a data set by its name."""
    skin, breast = tmp_path_factory.mktemp("skin"), tmp_path_factory.mktemp("breast")
    write_cases(skin / "train", skin_case, range(8))
    write_cases(skin / "test", skin_case, range(8, 12))
    for k, source in enumerate(("scanner-a", "scanner-b", "scanner-c")):
        draw = lambda r, size, source=source: breast_case(r, size, source)
        write_cases(breast / source, draw, range(5 * k, 5 * k + 5))
    paths = {"breast": breast, "folder": skin, "isic2017": skin}

    def federation(name, **more):
        path = {"path": paths[name]} if name in paths else {}
        options, found = {**COMMON, **path, **more}, REGISTRY.get(name)
        return found.of(options).federation() if isinstance(found, type) else found(**options)

    return federation


# Arrays in memory are nobody's to make: a run is given them.
pytestmark = pytest.mark.parametrize("name", sorted(set(REGISTRY.builtin) - {"arrays"}))


def test_has_what_is_asked_for_declared_mask_values_and_no_picture_twice(name, make):
    made = make(name)
    assert len(made.sites) == SITES
    assert all(1 <= len(index) <= CASES for index in made.sites.values())
    assert 1 <= len(made.test) <= TEST
    if name == "synthetic-volumes":  # each has a size of its own
        assert 0.8 * SIZE < max(made.train.usual_shape) < 1.2 * SIZE
    else:
        assert made.train.shape == made.test.shape == (SIZE, SIZE)
    images = (image for cases in (made.train, made.test) for image in cases.images)
    found = [hashlib.sha256(np.ascontiguousarray(image)).digest() for image in images]
    assert len(set(found)) == len(found), "the same picture under two ids"
    for cases in (made.train, made.test):
        assert cases.images.dtype == (np.float32 if name == "synthetic-volumes" else np.uint8)
        assert cases.masks.dtype == np.uint8
        assert cases.channels == made.train.channels in (1, 3)
        values = {value for mask in cases.masks for value in np.unique(mask).tolist()}
        assert values == set(range(len(made.classes) + 1))
        assert all(image.std() > 1 for image in cases.images)


def test_a_seed_always_gives_the_same_sites_each_of_one_source(name, make):
    first, second = make(name), make(name)
    owners = lambda made: [made.site(site).digest() for site in made.names()]
    assert owners(first) == owners(second)
    assert first.test.digest() == second.test.digest()
    assert all(len(set(first.site(site).sources)) <= 1 for site in first.names())
    assert any(owners(first) != owners(make(name, seed=seed)) for seed in (1, 2, 3))
