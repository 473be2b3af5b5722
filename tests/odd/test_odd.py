"""Any input gives a result or one error of ours: never a traceback, a hang or a harmed file.

Some of the inputs of ``make odd N=2000``, which also tries those that train. A failure names the
seed and number of its input: ``python tests/odd/odd.py 1 SEED NUMBER`` repeats it.
"""

from random import Random

import pytest
from odd_commands import odd_input
from odd_drive import judge
from odd_fixtures import make

SEED, COUNT = 11, 75


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    make(folder)
    return folder


def test_odd_inputs_end_with_a_result_or_an_error_of_ours(good, tmp_path):
    verdicts = [judge(SEED, number, good, tmp_path, is_quick=True) for number in range(COUNT)]
    wrong = [f"#{SEED}/{n} {v.text()}" for n, v in enumerate(verdicts) if v.wrong]
    assert not wrong, "\n\n".join(wrong)
    assert {0, 1, 2} <= {v.code for v in verdicts}, "the generator lost its variety"


def test_inputs_are_the_same_for_the_same_seed(good, tmp_path):
    for number in range(20):
        folders = [tmp_path / f"{number}{name}" for name in "ab"]
        for folder in folders:
            folder.mkdir()
        one, other = (odd_input(f, good, Random(f"{SEED} {number}")) for f in folders)
        assert one == other
