"""Worker processes: started as ``feda3i.engine.worker``, spoken to through pipes.

Frames are a length and a packed tree (``feda3i.core.trees``), so nothing is pickled and a script
needs no ``if __name__ == "__main__"``. Cases are shared through memory-mapped files: they exist
once, however many workers there are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Federation
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.core.ragged import Ragged, Stack
from feda3i.core.trees import pack, unpack
from feda3i.engine.job import Job
from feda3i.engine.scoring import Row
from feda3i.errors import RunError
from feda3i.files import make_private

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
_AHEAD = 4
"""Replies per worker that may wait for a slower site before them; bounds the server's memory."""
_SCORE_CHUNK = 16


START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "sys.path += [p for p in sys.argv[1:] if p not in sys.path]; "
    "from {} import main; main()"
)
"""Ctrl-C is the parent's to handle, also while torch is imported. The working directory, where a
file called json.py would be taken for Python's, is not looked at (-P); what this process can
import, plug-ins among it, comes after everything that is installed."""


class WorkerPool:
    """Some processes that answer orders; replies are given back in the order of the orders."""

    def __init__(self, job: Job, federation: Federation, folder: Path, count: int) -> None:
        kept = sum(len(index) for index in federation.validation.values())
        train, test = len(federation.train) - kept, len(federation.test)
        self._counts = {"train": train, "test": test, "validation": kept}
        shared = make_private(folder / "cache")
        hello = {
            "recipe": job.recipe.to_dict(),
            "format": job.format.to_dict(),
            "memory": str(folder / "memory"),
            "data": share(federation, shared),
        }
        devices = plan_devices(job.recipe.engine.device, count, job.gpus())
        self._workers = [
            _Worker(pack({**hello, "device": device}), number)
            for number, device in enumerate(devices)
        ]
        self._threads = ThreadPoolExecutor(count)
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order."""
        answers = self._stream([{"do": "answer", "order": vars(order)} for order in orders])
        for order, answer in zip(orders, answers, strict=True):
            if "missing" in answer:
                yield Missing(order.site, answer["missing"])
            else:
                yield Reply(**answer["reply"])

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Return the rows of all cases of a split, scored in chunks by all workers."""
        total = self._counts[split]
        requests = [
            {
                "do": "score",
                "params": params,
                "split": split,
                "start": start,
                "stop": min(start + _SCORE_CHUNK, total),
                "distances": distances,
            }
            for start in range(0, total, _SCORE_CHUNK)
        ]
        return [row for answer in self._stream(requests) for row in answer["rows"]]

    def _stream(self, requests: Sequence[dict[str, Any]]) -> Iterator[Any]:
        """Give requests to free workers, yield answers in order; at most a few run ahead."""
        waiting: deque[Future[Any]] = deque()
        for request in requests:
            waiting.append(self._threads.submit(self._ask, request))
            if len(waiting) >= _AHEAD * len(self._workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _ask(self, request: dict[str, Any]) -> Any:
        worker = self._free.get()
        try:
            return worker.ask(request)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """Stop all workers, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()


class _Worker:
    """One process, spoken to by one thread at a time."""

    def __init__(self, hello: bytes, number: int) -> None:
        self.number = number
        self._process = start_process("feda3i.engine.worker")
        self._hello: bytes | None = hello
        self._sent: Params | None = None

    def ask(self, request: dict[str, Any]) -> Any:
        enter, leave = self._process.stdin, self._process.stdout
        assert enter is not None
        assert leave is not None
        try:
            if self._hello is not None:
                write_frame(enter, self._hello)
                self._hello = None
            write_frame(enter, pack(self._without_known(request)))
            answer: Any = unpack(read_frame(leave))
        except (OSError, EOFError):
            raise RunError(self._death()) from None
        if "failure" in answer:
            raise RunError(answer["failure"])
        return answer

    def _without_known(self, request: dict[str, Any]) -> dict[str, Any]:
        """Leave the parameters out if they are those this worker was sent last."""
        inner = request.get("order", request)
        if inner["params"] is self._sent:
            trimmed = {**inner, "params": None}
            return {**request, "order": trimmed} if "order" in request else trimmed
        self._sent = inner["params"]
        return request

    def _death(self) -> str:
        code = self._process.wait()
        why = "it was killed, perhaps for lack of memory" if code == -9 else "see the lines above"
        return (
            f"worker process {self.number + 1} ended with code {code}: {why}; "
            f"engine.workers=1 runs all sites in one process"
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # the other end is gone, as was wanted
                    pipe.close()


def plan_devices(wanted: str, workers: int, gpus: int) -> list[str]:
    """Return the device of each worker; workers are spread over the GPUs in turn.

    Parameters
    ----------
    wanted
        ``engine.device``: ``auto``, ``cpu``, ``cuda`` (all GPUs) or one, e.g. ``cuda:1``.
    workers, gpus
        How many processes there are, and how many GPUs the machine has.

    >>> plan_devices("auto", 3, 2)
    ['cuda:0', 'cuda:1', 'cuda:0']
    >>> plan_devices("cuda:1", 2, 2), plan_devices("auto", 2, 0)
    (['cuda:1', 'cuda:1'], ['cpu', 'cpu'])
    """
    if wanted == "cpu" or gpus == 0:
        return ["cpu"] * workers
    if wanted not in ("auto", "cuda"):
        return [wanted] * workers
    return [f"cuda:{worker % gpus}" for worker in range(workers)]


def usual_workers(wanted: str, cores: int, gpus: int) -> int:
    """Return how many workers ``engine.workers=auto`` means: one per GPU in use, or per core.

    >>> usual_workers("auto", 8, 2), usual_workers("cuda:0", 8, 2), usual_workers("cpu", 8, 2)
    (2, 1, 8)
    """
    if wanted == "cpu" or gpus == 0:
        return cores
    return gpus if wanted in ("auto", "cuda") else 1


def start_process(module: str, **options: Any) -> subprocess.Popen[Any]:
    """Start a module's ``main`` in a process of one thread, with pipes to and from it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", START.format(module), *map(os.path.abspath, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
        **options,
    )


def write_frame(pipe: IO[bytes], data: bytes) -> None:
    """Write a length and the bytes."""
    pipe.write(len(data).to_bytes(8, "little"))
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes:
    """Read what ``write_frame`` wrote; raise ``EOFError`` if the other side is gone."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    length = int.from_bytes(head, "little")
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


def share(federation: Federation, folder: Path) -> dict[str, Any]:
    """Return a description of a federation that another process can open without a copy."""
    described: dict[str, Any] = {**vars(federation), "notes": {}}
    for split in ("train", "test"):
        stacks = {
            name: _file_of(getattr(described[split], name), folder / f"{split}-{name}.npy")
            for name in ("images", "masks")
        }
        described[split] = {**vars(described[split]), **stacks}
    for indices in ("sites", "validation"):
        given = described[indices].items()
        described[indices] = {site: np.asarray(index) for site, index in given}
    clean = federation.clean_masks
    same = clean is None or clean is federation.train.masks
    described["clean_masks"] = None if same else _file_of(clean, folder / "train-clean.npy")
    return described


def _file_of(array: Stack, path: Path) -> dict[str, Any]:
    """Return where an array lies on disk; write it there first unless it is a mapped file."""
    if isinstance(array, Ragged):
        sizes = {"shapes": array.shapes, "starts": array.starts}
        return {**_file_of(array.flat, path), **sizes}
    root: Any = array
    while isinstance(root.base, np.memmap):
        root = root.base
    is_file = isinstance(root, np.memmap) and str(root.filename).endswith(".npy")
    if is_file and array.flags.c_contiguous and array.shape[1:] == root.shape[1:]:
        start = (array.ctypes.data - root.ctypes.data) // array.strides[0]
        return {"path": str(root.filename), "start": start, "stop": start + len(array)}
    temporary = path.with_suffix(".tmp.npy")
    np.save(temporary, array)
    os.replace(temporary, path)
    return {"path": str(path), "start": 0, "stop": len(array)}


def open_file(described: dict[str, Any]) -> Stack:
    """Open an array that ``share`` described, mapped to memory."""
    whole: NDArray[Any] = np.load(described["path"], mmap_mode="r", allow_pickle=False)
    part = whole[described["start"] : described["stop"]]
    if "shapes" not in described:
        return part
    return Ragged(part, described["shapes"], described["starts"])
