"""Map a function over jobs in processes or threads: results in order, few jobs under way at once.

joblib is not used: its workers outlive a parent that was killed, and it unpickles code by value.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from feda3i.errors import DataError

JobT = TypeVar("JobT")
OutT = TypeVar("OutT")
Progress = Callable[[int, int], None]
"""Called with the number of jobs done and the number of all."""
Way = Literal["spawn", "fork", "threads"]
_AHEAD = 4  # batches per worker that wait or run: all are busy, and few results are kept

_work: Callable[[Any], Any] | None = None  # of a worker process, set when it starts


def ordered_map(
    call: Callable[..., OutT],
    jobs: Iterable[JobT],
    workers: int | None = None,
    *,
    tool: Callable[[], AbstractContextManager[Any]] | None = None,
    way: Way = "spawn",
    batch: int = 1,
) -> Iterator[OutT]:
    """Yield ``call(job)`` for every job, in their order.

    Parameters
    ----------
    workers
        How many; ``None`` for one per core, 1 for this process alone.
    tool
        Something every worker opens once, e.g. ``Reader``; calls are then ``call(job, tool)``.
    way
        ``"spawn"``: new processes, to which ``call`` is sent. ``"fork"``: copies of this one, which
        inherit it (a closure, say) and cost nothing to start; threads where that is not safe.
        ``"threads"``: for work that leaves the interpreter's lock most of the time.
    batch
        Jobs that are sent to a worker together.

    >>> list(ordered_map(abs, [-1, 2, -3], workers=2, way="threads"))
    [1, 2, 3]
    """
    count = workers or cores()
    with contextlib.ExitStack() as stack:
        if count <= 1:
            yield from map(_bind(call, tool, stack), jobs)
            return
        pool, run = _open_pool(count, call, tool, way, stack)
        # Not as a context: after an error nobody waits for jobs that have not begun.
        stack.callback(pool.shutdown, cancel_futures=True)
        waiting: deque[Future[list[OutT]]] = deque()
        remaining = iter(jobs)
        try:
            while some := list(islice(remaining, batch)):
                with safe_path():
                    waiting.append(pool.submit(run, some))
                if len(waiting) >= _AHEAD * count:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool:
            raise DataError(
                "a worker process died (out of memory, or a script without "
                "'if __name__ == \"__main__\":'): repeat with workers=1, what is finished is kept"
            ) from None


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_fork() -> bool:
    """Return whether processes may be forked here and now: no other thread could hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


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


def _open_pool(
    count: int,
    call: Callable[..., Any],
    tool: Callable[[], AbstractContextManager[Any]] | None,
    way: Way,
    stack: contextlib.ExitStack,
) -> tuple[Executor, Callable[[list[Any]], list[Any]]]:
    """Return workers and what to ask of them."""
    if way == "threads" or (way == "fork" and not can_fork()):
        return ThreadPoolExecutor(count), partial(_run_here, _bind(call, tool, stack))
    context = multiprocessing.get_context(way)
    with safe_path():  # the pool starts a process that looks after its semaphores
        pool = ProcessPoolExecutor(count, context, _start, (call, tool, way == "spawn"))
    return pool, _run


def _bind(
    call: Callable[..., Any],
    tool: Callable[[], AbstractContextManager[Any]] | None,
    stack: contextlib.ExitStack,
) -> Callable[[Any], Any]:
    if tool is None:
        return call
    opened = stack.enter_context(tool())
    return lambda job: call(job, opened)


def _start(
    call: Callable[..., Any],
    tool: Callable[[], AbstractContextManager[Any]] | None,
    is_new: bool,
) -> None:
    """Prepare a worker process, which ends with its parent and leaves Ctrl-C to it."""
    global _work
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if is_new:  # a forked process must not touch OpenCV's threads, which it did not inherit
        import cv2

        cv2.setNumThreads(0)
    _work = _bind(call, tool, contextlib.ExitStack())  # the tool is closed with the process


def _watch(sentinel: int) -> None:
    """End this process when its parent is gone: one that was killed cannot call its workers off."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _run(jobs: list[Any]) -> list[Any]:
    assert _work is not None  # set by _start
    return _run_here(_work, jobs)


def _run_here(work: Callable[[Any], Any], jobs: list[Any]) -> list[Any]:
    return [work(job) for job in jobs]
