"""Any input gives a result or one error of ours: never a traceback, a hang or a harmed file.

Some of the inputs of ``make odd N=2000``, which also tries those that train. A failure names the
seed and number of its input: ``make odd N=1 SEED=seed FIRST=number`` repeats it.
"""

from odd import judge, make

SEED, COUNT = 11, 45


def test_odd_inputs_end_with_a_result_or_an_error_of_ours(tmp_path):
    good, inputs = tmp_path / "good", tmp_path / "inputs"
    good.mkdir()
    inputs.mkdir()
    make(good)
    verdicts = [judge(SEED, number, good, inputs, is_quick=True) for number in range(COUNT)]
    wrong = [f"#{SEED}/{n} {v.text()}" for n, v in enumerate(verdicts) if v.wrong]
    assert not wrong, "\n\n".join(wrong)
    assert {0, 1, 2} <= {v.code for v in verdicts}, "the generator lost its variety"
