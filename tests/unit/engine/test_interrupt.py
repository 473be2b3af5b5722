"""A Ctrl-C or SIGTERM that torch swallows or turns into another error still ends the run."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from feda3i.engine.console import Silent
from feda3i.engine.interrupt import Interrupt
from feda3i.engine.run import resume, run

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
def test_check_raises_what_was_swallowed(number):
    with Interrupt() as interrupt:
        interrupt.check()
        press_and_swallow(number)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_an_error_after_it_leaves_as_an_interrupt():
    def fail():
        with Interrupt():
            press_and_swallow()
            raise RuntimeError("Error calling __set_name__")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(RuntimeError), Interrupt():
        raise RuntimeError  # another error passes


def test_what_the_host_has_set_stays():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        interrupt.check()
    signal.signal(signal.SIGINT, before)
    assert pressed == [signal.SIGINT]


def test_nothing_is_set_outside_the_main_thread():
    with ThreadPoolExecutor(1) as threads:  # where Python refuses to set a signal
        threads.submit(Interrupt().__enter__).result().check()


def test_a_batch_system_ends_a_command_as_ctrl_c_does(feda3i, monkeypatch):
    monkeypatch.setattr("feda3i.cli.app", lambda **_: signal.raise_signal(signal.SIGTERM))
    assert feda3i("list") == (130, "", "feda3i: interrupted\n")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class SwallowsOne(Silent):
    """A listener in which a signal of round 2 is lost."""

    rounds = 0

    def round(self, event):
        self.rounds += 1
        if self.rounds == 2:
            press_and_swallow(signal.SIGTERM)


def test_a_run_ends_at_the_next_answer_and_resumes_to_the_same_model(tiny_recipe, tmp_path):
    recipe = tiny_recipe("rounds=4")
    whole = run(recipe, tmp_path / "whole")
    listener = SwallowsOne()
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "stopped", listener=listener)
    assert listener.rounds == 2
    assert resume(tmp_path / "stopped").sha256 == whole.sha256
