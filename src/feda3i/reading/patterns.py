"""Patterns that users give: checked before use, and stopped if they take too long."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType

from feda3i.errors import RecipeError

_SECONDS = 2.0  # of this process's own time for one name; a sane pattern needs microseconds


@lru_cache(maxsize=8)
def compile_group(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; it must have a part called ``group``."""
    try:
        found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RecipeError(
            f"group: '{pattern}' is not a regular expression ({error}); "
            "expected for example '(?P<group>[^_]+)_.*'"
        ) from None
    if "group" not in found.groupindex:
        raise RecipeError(
            f"group: expected a part (?P<group>...) in the pattern, found '{pattern}'; "
            "for example '(?P<group>[^_]+)_.*'"
        )
    return found


def match_group(pattern: str, name: str) -> str | None:
    """Return what the part ``group`` matches if the pattern fits the whole name.

    >>> match_group("(?P<group>[^_]+)_.*", "p7_left"), match_group("(?P<group>x)", "p7")
    ('p7', None)
    """
    compiled = compile_group(pattern)
    with _limited(pattern, name):
        found = compiled.fullmatch(name)
    return found.group("group") if found else None


@contextlib.contextmanager
def _limited(pattern: str, name: str) -> Iterator[None]:
    """Stop a match that takes too long, as ``(a+)+`` does on long names.

    Only the main thread can be stopped, and only where there is a timer of this kind (not on
    Windows); elsewhere a match takes the time that it takes, and Ctrl-C ends it.
    """
    if not hasattr(signal, "setitimer") or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise RecipeError(
            f"group: the pattern '{pattern}' takes too long on the name '{name}': "
            "avoid repetitions inside repetitions"
        )

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
