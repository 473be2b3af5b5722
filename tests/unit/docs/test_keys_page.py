"""Every key of a recipe says what it takes and means."""

import pytest

from feda3i.commands.keys import all_keys


def test_every_key_has_a_meaning_and_a_kind():
    silent = [f"{key.owner}: {key.name}" for key in all_keys() if not key.meaning]
    assert not silent, "say below the field, or under Parameters, what it means"
    assert not [key.name for key in all_keys() if key.takes == "any value"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train.lr", ["number above 0 to 10; default: 0.005", "Learning rate of the"]),
        ("data.size", ["(breast, folder, isic2017)", "Side of every case in pixels"]),
        ("method.gamma", ["method.gamma (nr-dice)", "number from 1 to 2; default: 1.5"]),
        ("rounds", ["whole number from 1 to 1,000,000; default: 10"]),
        ("train", ["train.epochs", "train.betas"]),
        ("noise.p_d", ["Share of sites that draw too large."]),
        ("model.width", ["(unet)", "Feature maps of the first stage"]),
        ("fedprox", ["mu = 0.01 (number from 0)\n        Strength of the pull; 0 is FedAvg."]),
    ],
)
def test_keys_and_options_are_explained(feda3i, name, words):
    code, out, _ = feda3i("explain", name)
    assert (code, [word for word in words if word not in out]) == (0, [])
    assert feda3i("explain", "method" if name == "fedprox" else "key", name)[1] == out
    code, _, err = feda3i("explain", f"{name}r")
    assert (code, "did you mean" in err) == (2, True)


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
