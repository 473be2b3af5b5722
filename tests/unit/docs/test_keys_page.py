"""Every key of a recipe says what it takes and means, on the console and on its page."""

import importlib.util
from pathlib import Path

import pytest

from feda3i.commands.keys import all_keys

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_keys_is_made_from_the_code():
    spec = importlib.util.spec_from_file_location("make_keys", DOCS / "make_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert text == module.page(), "run: python docs/make_keys.py"
    assert all(f"`{key.name}`" in text for key in all_keys())


def test_every_key_has_a_meaning_and_a_kind():
    silent = [f"{key.owner}: {key.name}" for key in all_keys() if not key.meaning]
    assert not silent, "say below the field, or under Parameters, what it means"
    assert not [key.name for key in all_keys() if key.takes == "any value"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "train.lr",
            [
                "number above 0 to 10; default: 0.005",
                "Learning rate of the",
            ],
        ),
        ("data.size", ["(breast, folder, isic2017)", "Side of every case in pixels"]),
        ("method.gamma", ["method.gamma (nr-dice)", "number from 1 to 2; default: 1.5"]),
        ("rounds", ["whole number from 1 to 1,000,000; default: 10"]),
        ("train", ["train.epochs", "train.betas"]),
        ("noise.p_d", ["Share of sites that draw too large."]),
        ("model.width", ["(unet)", "Feature maps of the first stage"]),
    ],
)
def test_keys_are_explained(feda3i, name, words):
    code, out, _ = feda3i("explain", name)
    assert code == 0
    for word in words:
        assert word in out
    assert feda3i("explain", "key", name)[1] == out


def test_unknown_keys_suggest_the_nearest(feda3i):
    code, _, err = feda3i("explain", "train.lrr")
    assert code == 2
    assert "did you mean 'train.lr'" in err


def test_methods_say_what_their_options_mean(feda3i):
    code, out, _ = feda3i("explain", "fedprox")
    assert code == 0
    assert "    mu = 0.01 (number from 0)\n        Strength of the pull; 0 is FedAvg." in out
    page = (DOCS / "reference" / "methods" / "fedprox.md").read_text("utf-8")
    assert "Strength of the pull; 0 is FedAvg." in page


PLUG_IN = '''"""Mine: as FedAvg.

What leaves the site
    What FedAvg sends.
"""
from feda3i.methods.base import Method

class Mine(Method):
    """Half of it.

    Parameters
    ----------
    share, part
        How much.
    """

    share: float = 0.5
    part: int = 1
    late: bool = False
    """Begin late."""
    silent: str = "x"
'''


def test_options_of_a_plug_in_are_explained_too(feda3i, tmp_path):
    (tmp_path / "mine.py").write_text(PLUG_IN)
    code, out, _ = feda3i("explain", "method", f"{tmp_path}/mine.py:Mine")
    assert code == 0
    assert "share = 0.5 (number)\n        How much." in out
    assert "late = false (true or false)\n        Begin late." in out
    assert "silent = x (text)" in out
