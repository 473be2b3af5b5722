"""A Ctrl-C or SIGTERM that torch swallows or turns into another error still ends the run."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from feda3i.engine.interrupt import Interrupt
from feda3i.engine.run import resume, run
from listeners import After

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@pytest.fixture(autouse=True)
def usual_reactions():
    before = {number: signal.signal(number, usual) for number, usual in USUAL.items()}
    yield
    assert {number: signal.getsignal(number) for number in USUAL} == USUAL
    for number, reaction in before.items():
        signal.signal(number, reaction)


def press_and_swallow(number=signal.SIGINT):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", USUAL)
def test_what_was_swallowed_is_raised_by_the_next_check_and_by_an_error_after_it(number):
    with Interrupt() as interrupt:
        interrupt.check()
        press_and_swallow(number)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()

    def fail():
        with Interrupt():
            press_and_swallow(number)
            raise RuntimeError("Error calling __set_name__")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(RuntimeError), Interrupt():
        raise RuntimeError  # another error passes


def test_what_the_host_has_set_stays_and_nothing_is_set_outside_the_main_thread():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        interrupt.check()
    signal.signal(signal.SIGINT, before)
    assert pressed == [signal.SIGINT]
    with ThreadPoolExecutor(1) as threads:  # where Python refuses to set a signal
        threads.submit(Interrupt().__enter__).result().check()


def test_a_batch_system_ends_a_command_as_ctrl_c_does(feda3i, monkeypatch):
    monkeypatch.setattr("feda3i.cli.app", lambda **_: signal.raise_signal(signal.SIGTERM))
    assert feda3i("list") == (130, "", "feda3i: interrupted\n")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_run_ends_at_the_next_answer_and_resumes_to_the_same_model(tiny_recipe, tmp_path):
    recipe, heard = tiny_recipe("rounds=4"), []
    whole = run(recipe, tmp_path / "whole")

    def lose_the_second(round):
        heard.append(round)
        if round == 2:
            press_and_swallow(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "stopped", listener=After(lose_the_second))
    assert heard == [1, 2]
    assert resume(tmp_path / "stopped").sha256 == whole.sha256
