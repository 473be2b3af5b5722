"""Spread jobs over processes or threads: results in order, few jobs under way at once.

The engine, the noise, the cache and the bench all do it here. joblib is not used: its workers
outlive a parent that was killed, and it unpickles code by value.
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
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Generic, Literal, Self, TypeVar

from feda3i.errors import FedA3IError, RunError
from feda3i.failures import is_out_of_memory, message_of

JobT = TypeVar("JobT")
OutT = TypeVar("OutT")
Tool = Callable[[], AbstractContextManager[Any]]
Way = Literal["processes", "threads"]
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

_work: Callable[[Any], Any] | None = None  # of a worker process, set when it starts
_number = 0


def worker_number() -> int:
    """Return which worker of its pool this process is, counted from 0."""
    return _number


class Pool(Generic[JobT, OutT]):
    """Workers that call one function; close it, or use it as a context.

    Parameters
    ----------
    call
        What to call with each job; a process gets it by its name, so that nothing travels as code.
    count
        How many workers; 1 for this process alone.
    tool
        Something every worker opens once, e.g. ``Reader``; calls are then ``call(job, tool)``.
    way
        ``processes`` are new ones, to which ``call`` is sent; ``threads`` are for work that leaves
        the interpreter's lock most of the time.
    apart
        Even a single worker is a process of its own.
    """

    def __init__(
        self,
        call: Callable[..., OutT],
        count: int,
        *,
        tool: Tool | None = None,
        way: Way = "processes",
        apart: bool = False,
    ) -> None:
        self._count = count
        self._stack = contextlib.ExitStack()
        self._executor: Executor | None = None
        self._run: Callable[[list[JobT]], list[OutT]] = _run
        if way == "threads" or (count <= 1 and not apart):
            self._run = partial(_run_here, _bind(call, tool, self._stack))
            if count > 1:
                self._executor = ThreadPoolExecutor(count)
        else:
            context = _CleanContext()
            with _clean_start():  # of the process that looks after semaphores
                numbers = context.SimpleQueue()
                leash, end = context.Pipe(duplex=False)
                given = (call, tool, numbers, leash)
                self._executor = ProcessPoolExecutor(count, context, _start, given)
            for number in range(count):
                numbers.put(number)
            self._stack.callback(leash.close)
            self._stack.callback(end.close)  # ends the workers, whatever they are doing

    def map(self, jobs: Iterable[JobT], batch: int = 1) -> Iterator[OutT]:
        """Yield the results of all jobs in their order; ``batch`` of them are sent together."""
        remaining = iter(jobs)
        if self._executor is None:
            while some := list(islice(remaining, batch)):
                yield from self._run(some)
            return
        waiting: deque[Future[list[OutT]]] = deque()
        try:
            while some := list(islice(remaining, batch)):
                waiting.append(self._executor.submit(self._run, some))
                if len(waiting) >= _AHEAD * self._count:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool:
            raise RunError(
                "a worker process died, perhaps for lack of memory: repeat with one worker "
                "(engine.workers=1 or --workers 1); what is finished is kept"
            ) from None

    def submit(self, job: JobT) -> Future[list[OutT]]:
        """Return what will hold the result of one job, in a list."""
        assert self._executor is not None, "a pool of workers, not of this process alone"
        return self._executor.submit(self._run, [job])

    def close(self) -> None:
        """End all workers without waiting for jobs that have not begun."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ordered_map(
    call: Callable[..., OutT],
    jobs: Iterable[JobT],
    workers: int | None = None,
    *,
    tool: Tool | None = None,
    way: Way = "processes",
    batch: int = 1,
) -> Iterator[OutT]:
    """Yield ``call(job)`` for every job, in their order, from a pool that lasts as long.

    ``workers`` is how many; ``None`` for one per core. The rest is as in ``Pool``.

    >>> list(ordered_map(abs, [-1, 2, -3], workers=2, way="threads"))
    [1, 2, 3]
    """
    with Pool[JobT, OutT](call, workers or cores(), tool=tool, way=way) as pool:
        yield from pool.map(jobs, batch)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- how a process starts -------------------------------------------------------------------------


class _CleanProcess(SpawnProcess):
    """A process that starts without the caller's script, its working directory and Ctrl-C."""

    def start(self) -> None:
        with _clean_start():
            super().start()


class _CleanContext(SpawnContext):
    Process = _CleanProcess


@contextlib.contextmanager
def _clean_start() -> Iterator[None]:
    """Start processes with one thread each, which run nothing but our code and leave Ctrl-C to us.

    A spawned process imports some modules before it gets this one's path: a file called pickle.py
    in the working directory would be executed. It would also run the caller's script again, unless
    that is guarded by ``if __name__ == "__main__"``.
    """
    before, script = dict(os.environ), sys.modules["__main__"]
    os.environ.update(ENVIRONMENT, PYTHONSAFEPATH="1")
    sys.modules["__main__"] = ModuleType("__main__")
    signals = {signal.SIGINT} if hasattr(signal, "pthread_sigmask") else set()
    # A process inherits the mask: Ctrl-C while it imports torch is not its business either.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals) if signals else set()
    try:
        yield
    finally:
        if signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules["__main__"] = script
        for name in (*ENVIRONMENT, "PYTHONSAFEPATH"):
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _start(call: Callable[..., Any], tool: Tool | None, numbers: Any, leash: Any) -> None:
    """Prepare a worker process, which ends with its pool and its parent."""
    global _work, _number
    parent = multiprocessing.parent_process()
    ends = [leash] if parent is None else [leash, parent.sentinel]
    threading.Thread(target=_watch, args=(ends,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what a library prints is no result
    import cv2

    cv2.setNumThreads(0)
    _number = numbers.get()
    try:
        _work = _bind(call, tool, contextlib.ExitStack())  # the tool is closed with the process
    except Exception as error:  # raised where somebody listens: by the first job
        _work = partial(_fail, _told(error))


def _watch(ends: list[Any]) -> None:
    """End this process when its pool is closed or its parent gone, whatever it is doing."""
    multiprocessing.connection.wait(ends)
    os._exit(1)


def _bind(
    call: Callable[..., Any], tool: Tool | None, stack: contextlib.ExitStack
) -> Callable[[Any], Any]:
    if tool is None:
        return call
    opened = stack.enter_context(tool())
    return lambda job: call(job, opened)


def _run(jobs: list[Any]) -> list[Any]:
    assert _work is not None  # set by _start
    try:
        return _run_here(_work, jobs)
    except Exception as error:
        raise _told(error) from None


def _run_here(work: Callable[[Any], Any], jobs: list[Any]) -> list[Any]:
    return [work(job) for job in jobs]


def _fail(error: Exception, _job: Any) -> None:
    raise error


def _told(error: Exception) -> Exception:
    """Return an error as the parent can show it: a traceback, which names a plug-in, stays here."""
    if isinstance(error, FedA3IError | OSError) or is_out_of_memory(error):
        return error
    return RunError(message_of(error)[0])
