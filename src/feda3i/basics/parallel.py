"""Map a function over jobs in processes: results in order, a bounded number of jobs under way."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from feda3i.errors import DataError
from feda3i.reading.archive import Reader

JobT = TypeVar("JobT")
OutT = TypeVar("OutT")
_AHEAD = 4  # jobs per process that wait or run: enough to keep all busy, few enough to stay small

_reader: Reader | None = None  # of a worker process: its archives stay open between jobs


def ordered_map(
    call: Callable[..., OutT], jobs: Iterable[JobT], fixed: tuple[Any, ...], workers: int | None
) -> Iterator[OutT]:
    """Yield ``call(job, *fixed, reader)`` for every job, in their order.

    Parameters
    ----------
    workers
        Processes; ``None`` for one per core, 1 for none but this one.
    """
    count = workers or os.cpu_count() or 1
    if count == 1:
        with Reader() as reader:
            for job in jobs:
                yield call(job, *fixed, reader)
        return
    # Spawned rather than forked: the calling program may hold threads (torch, OpenMP).
    context = multiprocessing.get_context("spawn")
    with safe_path():  # the pool starts a process that looks after its semaphores
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_start)
    waiting: deque[Future[OutT]] = deque()
    try:
        for job in jobs:
            with safe_path():
                waiting.append(pool.submit(_run, call, job, fixed))
            if len(waiting) >= _AHEAD * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process died (out of memory, or a script without "
            "'if __name__ == \"__main__\":'): repeat with workers=1, finished cases are kept"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Let processes started here import nothing from the working directory.

    A spawned process gets this one's path in the end, but imports some modules before: a file
    called pickle.py or struct.py in the working directory would be executed.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def leave_with_parent() -> None:
    """End this worker when its parent is gone: one that was killed cannot call its workers off."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _start() -> None:
    """Prepare a worker: Ctrl-C is the parent's business, and one thread per process is enough."""
    import cv2

    global _reader
    leave_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(0)
    _reader = Reader()


def _run(call: Callable[..., OutT], job: JobT, fixed: tuple[Any, ...]) -> OutT:
    return call(job, *fixed, _reader)
