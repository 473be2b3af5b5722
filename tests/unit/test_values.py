"""Values that are wrong everywhere are refused once, with the key that holds them."""

import pytest

from feda3i import recipe
from feda3i.errors import RecipeError
from feda3i.methods.base import make_method
from feda3i.ram import available, check_fits


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("engine.deadline=inf", "engine.deadline: expected a finite number, found inf"),
        ("train.lr=nan", "train.lr: expected a finite number"),
        ("method=[1]", r"method: expected a name, found \[1\]"),
        ("method=", "method: expected a name"),
        ("rounds=" + "9" * 5000, "cannot read"),
        ("rounds=0x" + "f" * 5000, "rounds: expected a whole number of at most 64 bits"),
        ("data.x=" + "[" * 2000 + "]" * 2000, "cannot read"),
        ("data.x=" + "[" * 20 + "]" * 20, "nested more than"),
        ("data.x=1979-05-27", "data.x: expected text, a number"),
        ("title=\udcff", "title: expected text in UTF-8"),
        ('title="a\\u0000b"', "title: expected text in UTF-8"),
        ("title=1\nseed = 5", "title: expected text in UTF-8 without control characters"),
        ("title=$print(1)", r"title: expected text that does not begin with \$, @ or %, found"),
        ("data.classes=['liver', ' @x']", r"data.classes: expected text that does not begin"),
        ("rounds=true", "rounds: input should be a valid integer, found True"),
        ("train.betas=[true, 0.5]", "train.betas.0: input should be a valid number, found True"),
        ("engine.workers=true", "engine.workers.* integer, found True"),
        ("seed=false", "seed: input should be a valid integer, found False"),
    ],
)
def test_overrides(override, words):
    with pytest.raises(RecipeError, match=words):
        recipe.load(None, [override])


@pytest.mark.parametrize(
    "text",
    [
        b"rounds = " + b"9" * 5000,
        b"x = " + b"[" * 3000,
        b"title = '\xff'",
        b"method = 5\nmethods = 3",
        b"[methods]\nfeda3i = 5",
        b"data = {size = 3}\nnoise = 2",
        b"\x00",
    ],
)
def test_files(text, tmp_path):
    file = tmp_path / "odd.toml"
    file.write_bytes(text)
    with pytest.raises(RecipeError):
        recipe.load(file, ["data=synthetic", "method=feda3i", "feda3i.t1=0.5", "feda3i.x=1"])


def test_options_take_no_flags_as_numbers():
    assert recipe.load(None, ["evaluate.distances=true"]).evaluate.distances is True
    assert make_method("feda3i", {"t1": 4}).t1 == 4
    with pytest.raises(RecipeError, match=r"feda3i.t1.* valid integer, found True"):
        make_method("feda3i", {"t1": True})
    with pytest.raises(RecipeError, match=r"adele.scales.1: .* valid number, found False"):
        make_method("adele", {"scales": [1.0, False]})


def test_memory_that_is_not_there_is_not_taken():
    assert 0 < available() < 2**62
    check_fits("a byte", 1.0, "")
    with pytest.raises(RecipeError, match=r"cases: expected to fit into memory, found 4,.* GiB"):
        check_fits("cases", 2.0**72, "use fewer")
