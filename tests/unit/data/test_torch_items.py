"""A torch ``Dataset`` is a data set, and so is the function that docs/data.md shows."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from feda3i import recipe
from feda3i.data.torch_items import Items, federation_of_items, gives_items
from feda3i.errors import DataError, RecipeError
from feda3i.simulation.federation import load_data

DOCS = Path(__file__).parents[3] / "docs"
SHORT = ("rounds=1", "train.epochs=1", "model.width=4", "engine.workers=1", "noise=none")
PLUGIN = """
import torch
from torch.utils.data import Dataset

class Squares(Dataset):
    def __init__(self, count: int = 10):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        mask = torch.zeros(1, 32, 40)
        mask[:, i : i + 12, 4:20] = 1
        facts = {"id": f"square-{i}", "site": "ab"[i % 2]}
        return {"image": 0.2 + 0.5 * mask, "mask": mask, **facts}

made = Squares(8)
by_site = {"north": Squares(6), "south": Squares(5)}

def make(count: int = 12) -> Dataset:
    return Squares(count)

def undeclared():
    raise AssertionError("must not be called")
"""


class Pairs(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def square(shape=(3, 32, 32), scale=1.0):
    mask = np.zeros(shape[-2:], np.uint8)
    mask[4:20, 4:20] = 1
    return np.full(shape, 0.5 * scale, np.float32), mask


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "squares.py"
    path.write_text(PLUGIN)
    return path


@pytest.mark.parametrize(
    ("name", "options", "sites", "cases"),
    [
        ("Squares", ["data.count=10"], ["a", "b"], 10),
        ("made", [], ["a", "b"], 8),
        ("by_site", [], ["north", "south"], 11),
        ("make", ["data.count=9", "data.size=16"], ["a", "b"], 9),
        ("made", ["data.partition=iid", "data.sites=3"], ["site-01", "site-02", "site-03"], 8),
    ],
)
def test_a_torch_dataset_is_accepted(plugin, name, options, sites, cases):
    loaded = recipe.load("demo", [f"data={plugin}:{name}", *SHORT, *options])
    federation = load_data(loaded)
    assert federation.names() == sites
    assert len(federation.train) + len(federation.test) == cases
    assert federation.train.shape == ((16, 16) if "data.size=16" in options else (32, 40))
    first = federation.train
    assert first.channels == 1
    assert set(np.unique(first.images)) <= set(range(51, 180))
    assert load_data(loaded).train.digest() == first.digest()


def test_a_run_with_a_torch_dataset(plugin, tmp_path, feda3i):
    code, _, err = feda3i(
        "run", "demo", f"data={plugin}:Squares", *SHORT, "method=fedavg", "--out", tmp_path / "run"
    )
    assert code == 0, err


def test_wrong_options_and_undeclared_functions_are_refused(plugin):
    with pytest.raises(RecipeError, match=r"no option 'cuont'.*did you mean 'count'"):
        load_data(recipe.load("demo", [f"data={plugin}:Squares", "data.cuont=3"]))
    with pytest.raises(RecipeError, match="-> Federation"):
        load_data(recipe.load("demo", [f"data={plugin}:undeclared"]))
    assert not gives_items(print)
    assert not gives_items({})


def test_shapes_and_values_of_every_kind():
    def one(*pair, **options):
        items = [(pair[0], pair[1], {"id": f"c{i}", "site": "ab"[i % 2]}) for i in range(6)]
        return federation_of_items(Pairs(items), Items(**options)).train

    image, mask = square()
    assert one(image, mask).images.shape[1:] == (32, 32, 3)
    assert one(np.moveaxis(image, 0, -1), mask[None] * 255).masks.max() == 1
    assert one(torch.tensor(image[0] * 255).byte(), torch.tensor(mask).bool()).channels == 1
    assert (one(image * 200, mask).images == 100).all()
    assert one(image, mask * 2, classes=("x", "y")).masks.max() == 2
    with pytest.raises(DataError, match="normalises"):
        one(image - 1, mask)
    with pytest.raises(DataError, match="mask values 0 to 1"):
        one(image, mask * 2)
    with pytest.raises(DataError, match=r"expected an image \(channel"):
        one(image[:, :8], mask)


def test_items_that_say_too_little_or_too_much():
    image, mask = square()
    with pytest.raises(DataError, match="found a table with picture"):
        federation_of_items(Pairs([{"picture": image}]))
    with pytest.raises(DataError, match="found Tensor"):
        federation_of_items(Pairs([torch.zeros(3, 8, 8)]))
    with pytest.raises(DataError, match="with the id 'x', found two"):
        federation_of_items(Pairs([(image, mask, {"id": "x"})] * 2))
    with pytest.raises(DataError, match="of one size"):
        federation_of_items(Pairs([(image, mask), square((3, 16, 16))]))


def test_the_function_in_the_docs_works_with_the_command_there(tmp_path, feda3i):
    """The recipe's own sites, cases and test are for its own data set, not for this function."""
    page = (DOCS / "data.md").read_text()
    code = next(b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "def my_data" in b)
    made = """(
        Cases(tuple(f"{k}{i}" for i in range(n)), np.full((n, 32, 32, 1), 90, np.uint8),
              np.pad(np.ones((n, 9, 9), np.uint8), ((0, 0), (4, 19), (4, 19))))
        for k, n in (("train", 50), ("test", 4)))"""
    assert "cases, test = ..." in code
    (tmp_path / "mine.py").write_text(code.replace("...", made, 1))
    out = tmp_path / "run"
    command = ("run", "demo", f"data={tmp_path}/mine.py:my_data", *SHORT, "method=fedavg")
    code, _, err = feda3i(*command, "--out", out)
    assert code == 0, err
    kept = recipe.load("demo", [f"data={tmp_path}/mine.py:my_data"]).data.options()
    assert kept == {}
