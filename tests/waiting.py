"""Wait for what happens, not for a clock: a busy machine is slow, and that is no failure."""

import signal
import time

HANG = 1800.0
"""Seconds after which a test that waits for one thing is hung for sure."""


def wait_until(is_so, why=lambda: "", pause=0.05):
    """Wait until a condition holds; it may raise to say that it never will."""
    end = time.monotonic() + HANG
    while not is_so():
        assert time.monotonic() < end, f"nothing happened in {HANG:.0f} s; {why()}"
        time.sleep(pause)


def hear_ctrl_c():
    """Let a new process (``preexec_fn``) take SIGINT, which jobs in the background ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
