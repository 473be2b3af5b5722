"""Spread jobs over processes or threads: results in order, few jobs under way at once.

joblib is not used: its workers outlive a parent that was killed, and it unpickles code by value.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Generic, TypeVar

from feda3i.errors import FedA3IError, RunError
from feda3i.failures import is_out_of_memory, message_of

JobT = TypeVar("JobT")
OutT = TypeVar("OutT")
_AHEAD = 4  # batches per worker that wait or run: all are busy, and few results are kept
ENVIRONMENT = {
    # One thread per worker: two teams of threads on the same cores stall each other.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    # Keep freed pages: activations of the same sizes come again every step.
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(512 * 2**20),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}

# Of a worker process, set when it starts:
_number = 0
_call: Callable[..., Any]
_tool: Callable[[], Any] | None
_opened: list[Any] = []


def worker_number() -> int:
    """Return which worker of its pool this process is, counted from 0."""
    return _number


class Pool(Generic[JobT, OutT]):
    """Processes that call one function; close it.

    With ``tool`` every process calls that once, and then ``call(job, what the tool returned)``.
    """

    def __init__(
        self, call: Callable[..., OutT], count: int, tool: Callable[[], Any] | None = None
    ) -> None:
        self._count = count
        context = _CleanContext()
        with _clean_start():  # of the process that looks after semaphores
            numbers = context.SimpleQueue()
            self._leash = context.Pipe(duplex=False)
            given = (call, tool, numbers, self._leash[0])
            self._executor = ProcessPoolExecutor(count, context, _start, given)
        for number in range(count):
            numbers.put(number)

    def map(self, jobs: Iterable[JobT]) -> Iterator[OutT]:
        """Yield the results of all jobs in their order."""
        try:
            yield from _in_order(self.submit, jobs, _AHEAD * self._count)
        except BrokenProcessPool:
            raise RunError(
                "a worker process died, perhaps for lack of memory: repeat with one worker "
                "(engine.workers=1); what is finished is kept"
            ) from None

    def submit(self, job: JobT) -> Future[OutT]:
        """Return what will hold the result of one job."""
        return self._executor.submit(_run, job)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for end in self._leash:
            end.close()


def ordered_map(
    call: Callable[[JobT], OutT], jobs: Iterable[JobT], workers: int | None = None, batch: int = 1
) -> Iterator[OutT]:
    """Yield ``call(job)`` for every job, in their order, from threads (one per core).

    A thread takes ``batch`` jobs in a row.

    >>> list(ordered_map(abs, [-1, 2, -3], workers=2))
    [1, 2, 3]
    """
    count, remaining = workers or cores(), iter(jobs)
    batches = iter(lambda: list(islice(remaining, batch)), [])

    def submit(some: list[JobT]) -> Future[list[OutT]]:
        return executor.submit(lambda: [call(job) for job in some])

    executor = ThreadPoolExecutor(count)
    try:
        for results in _in_order(submit, batches, _AHEAD * count):
            yield from results
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _in_order(
    submit: Callable[[JobT], Future[OutT]], jobs: Iterable[JobT], ahead: int
) -> Iterator[OutT]:
    waiting: deque[Future[OutT]] = deque()
    for job in jobs:
        waiting.append(submit(job))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _CleanProcess(SpawnProcess):
    def start(self) -> None:
        with _clean_start():
            super().start()


class _CleanContext(SpawnContext):
    Process = _CleanProcess


@contextlib.contextmanager
def _clean_start() -> Iterator[None]:
    """Start processes with one thread each, which run nothing but our code and leave Ctrl-C to us.

    A spawned process would import a pickle.py of the working directory, and run the caller's script
    again unless that is guarded by ``if __name__ == "__main__"``.
    """
    before, script = dict(os.environ), sys.modules["__main__"]
    given = {**ENVIRONMENT, "PYTHONSAFEPATH": "1"}
    os.environ.update(given)
    sys.modules["__main__"] = ModuleType("__main__")
    # A process inherits the mask: Ctrl-C while it imports torch is not its business either.
    is_posix = hasattr(signal, "pthread_sigmask")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if is_posix else set()
    try:
        yield
    finally:
        if is_posix:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules["__main__"] = script
        for name in given:
            del os.environ[name]
        os.environ.update({name: before[name] for name in given if name in before})


def _start(
    call: Callable[..., Any], tool: Callable[[], Any] | None, numbers: Any, leash: Any
) -> None:
    """Prepare a worker process, which ends with its pool and its parent."""
    global _number, _call, _tool
    parent = multiprocessing.parent_process()
    ends = [leash] if parent is None else [leash, parent.sentinel]
    threading.Thread(target=_watch, args=(ends,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what a library prints is no result
    import cv2

    cv2.setNumThreads(0)
    _number, _call, _tool = numbers.get(), call, tool


def _watch(ends: list[Any]) -> None:
    """End this process when its pool is closed or its parent gone, whatever it is doing."""
    multiprocessing.connection.wait(ends)
    os._exit(1)


def _run(job: Any) -> Any:
    try:
        if _tool is not None and not _opened:
            _opened.append(_tool())
        return _call(job, *_opened)
    except Exception as error:
        raise _told(error) from None


def _told(error: Exception) -> Exception:
    """Return an error as the parent can show it: a traceback, which names a plug-in, stays here."""
    if isinstance(error, FedA3IError | OSError) or is_out_of_memory(error):
        return error
    return RunError(message_of(error)[0])
