"""Call a function for every case in processes or threads, results in order.

On Linux the processes are forked: they cost nothing to start, need no ``if __name__ ==
"__main__":`` in scripts and inherit what the function refers to. That is safe only while no other
thread of this program could hold a lock, so with Python threads about (and on other systems)
threads do the work; decoders release the interpreter's lock for most of their time.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

from feda3i.basics.parallel import leave_with_parent

T = TypeVar("T")
_FEW = 64  # calls per worker below which starting workers does not pay

_inherited: Callable[[int], Any] | None = None


def spread(work: Callable[[int], T], count: int, workers: int) -> list[T]:
    """Return ``[work(0), work(1), ..., work(count - 1)]``.

    What ``work`` writes must go to files or memory that processes share.

    >>> spread(lambda place: place * place, 4, workers=2)
    [0, 1, 4, 9]
    """
    workers = min(workers, count // _FEW)
    if workers <= 1:
        return [work(place) for place in range(count)]
    results: list[Any] = [None] * count
    for start, part in enumerate(_run(work, count, workers)):
        results[start::workers] = part
    return results


def can_fork() -> bool:
    """Return whether processes may be forked here and now."""
    return sys.platform == "linux" and threading.active_count() == 1


def _run(work: Callable[[int], T], count: int, workers: int) -> list[list[T]]:
    places = [range(start, count, workers) for start in range(workers)]
    if not can_fork():
        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(lambda part: [work(place) for place in part], places))
    global _inherited
    _inherited = work
    try:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, context, initializer=leave_with_parent) as pool:
            return list(pool.map(_part, places))
    finally:
        _inherited = None


def _part(places: range) -> list[Any]:
    assert _inherited is not None  # set by the parent just before the fork
    return [_inherited(place) for place in places]
