"""How orders reach sites on this machine: in this process, or in worker processes of one thread.

Whatever the number of workers, replies come back in the order of the orders, and every site's
answer depends on its order alone: the result of a run is the same to the bit. Workers share the
pixels: their pages are those of files in the run folder.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count, starmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.core.ragged import Ragged
from feda3i.core.trees import pack, unpack
from feda3i.engine.job import Job
from feda3i.engine.scoring import Row, join_slices, score_cases, site_means
from feda3i.errors import DivergedError, RunError, WireError
from feda3i.files import make_private, write_file
from feda3i.pool import Pool, cores, worker_number

_ELSEWHERE = Params(np.empty(0, np.float32), np.empty(0, np.int64))
"""Stands in an order for parameters that lie in a file."""
_SCORE_CHUNK = 16
_SMALL = 1 << 16  # bytes of an array that needs no file of its own


class Transport(Protocol):
    """What the round loop needs of an engine."""

    is_remote: bool
    """Whether answers come from other machines, which may be anybody's."""

    def sites(self) -> dict[str, int]:
        """Return the sites that can be asked, with their number of cases."""

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order, in the order of the orders."""

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Return the scores of every case; of ``"validation"`` the means of each site."""

    def facts(self) -> dict[str, Any]:
        """Return what the engine adds to a round's event, e.g. bytes sent; then forget it."""


class _Desk:
    """One process: the host of all sites, and the cases to score."""

    def __init__(self, job: Job, federation: Federation, memory: Path) -> None:
        from feda3i.engine.host import SiteHost

        self.host = SiteHost(job, federation.train, federation.sites, memory)
        self._cases = scored_cases(federation)
        self._read: tuple[Path, Params] | None = None

    def do(self, params: Params | Path, asked: Any) -> Reply | Missing | list[Row]:
        """Answer an order, or score some cases, with parameters or those in a file."""
        if isinstance(params, Path):
            if self._read is None or self._read[0] != params:
                self._read = params, unpack(params.read_bytes())
            params = self._read[1]
        if not isinstance(asked, Order):
            split, part, distances = asked
            cases, where = self._cases[split]
            return score_cases(self.host.predictor, params, cases, where[part], distances)
        try:
            return self.host.answer(replace(asked, params=params))
        except (RunError, WireError) as error:
            return Missing(asked.site, str(error), isinstance(error, DivergedError))


class LocalTransport:
    """All sites of a federation on this machine; their memory and shared arrays lie in a folder."""

    is_remote = False

    def __init__(self, job: Job, federation: Federation, folder: Path) -> None:
        self.federation = federation
        self._sent: tuple[Params, Path] | None = None
        self._numbers = count()
        self._desk: _Desk | None = None
        workers, memory = worker_count(job, len(federation.sites)), (folder / "memory").absolute()
        if workers == 1:
            self._desk = _Desk(job, federation, memory)
            return
        self._cache = make_private(folder / "cache").absolute()
        light, devices = shared(federation, self._cache), devices_of(job.recipe.engine.device)
        # A new job: what this one has made already (a network, a plug-in) stays here.
        tool = partial(_open_desk, replace(job), light, memory, devices)
        self._pool: Pool[Any, Any] = Pool(_do, workers, tool)

    def sites(self) -> dict[str, int]:
        """Return every site of the federation."""
        return {name: len(self.federation.sites[name]) for name in self.federation.names()}

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order, in the order of the orders."""
        return self._each((order.params, replace(order, params=_ELSEWHERE)) for order in orders)

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Return the scores of every case; of ``"validation"`` the means of each site."""
        total = len(scored_cases(self.federation)[split][1])
        step = _SCORE_CHUNK if self._desk is None else max(total, 1)
        parts = (slice(n, n + step) for n in range(0, total, step))
        done = self._each((params, (split, part, distances)) for part in parts)
        rows = join_slices([row for some in done for row in some])
        return site_means(rows) if split == "validation" else rows

    def _each(self, asked: Iterable[tuple[Params, Any]]) -> Iterator[Any]:
        if self._desk is not None:
            return starmap(self._desk.do, asked)
        return self._pool.map((self._file_of(params), what) for params, what in asked)

    def _file_of(self, params: Params) -> Path:
        """Return a file with parameters, written once for all orders that hold them."""
        if self._sent is None or self._sent[0] is not params:
            if self._sent is not None:
                self._sent[1].unlink(missing_ok=True)
            self._sent = params, self._cache / f"params-{next(self._numbers)}.bin"
            write_file(self._sent[1], pack(params), durable=False)
        return self._sent[1]

    def facts(self) -> dict[str, Any]:
        """Return nothing: there is no network."""
        return {}

    def close(self) -> None:
        """Stop the workers."""
        if self._desk is None:
            self._pool.close()


def _open_desk(job: Job, federation: Federation, memory: Path, devices: Sequence[str]) -> _Desk:
    """Return what a worker process answers with, on its device."""
    device = {"device": devices[worker_number() % len(devices)]}
    engine = job.recipe.engine.model_copy(update=device)
    own = Job(job.recipe.model_copy(update={"engine": engine}), job.format)
    return _Desk(own, federation, memory)


def _do(request: tuple[Path, Any], desk: _Desk) -> Reply | Missing | list[Row]:
    return desk.do(*request)


class _InFile(np.memmap[Any, Any]):
    """An array in a file: another process maps the file instead of getting a copy."""

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return _open, (self.filename,)


def _open(file: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError:  # the run was interrupted while this process was starting
        raise SystemExit(1) from None


def shared(federation: Federation, folder: Path) -> Federation:
    """Return a federation that is cheap to send to processes: its pixels lie in files for all."""
    number = count()

    def put(stack: Any) -> Any:
        if isinstance(stack, Ragged):
            return Ragged(put(stack.flat), stack.shapes, stack.starts)
        if stack is None or stack.nbytes < _SMALL:
            return stack
        file = folder.absolute() / f"array-{next(number)}.npy"
        np.save(file, stack, allow_pickle=False)
        return np.load(file, mmap_mode="r", allow_pickle=False).view(_InFile)

    train, test = (
        replace(cases, images=put(cases.images), masks=put(cases.masks))
        for cases in (federation.train, federation.test)
    )
    clean = put(federation.clean_masks)
    return replace(federation, train=train, test=test, clean_masks=clean, notes={})


def scored_cases(federation: Federation) -> dict[str, tuple[Cases, Index]]:
    """Return the cases to score by split, and where: with the best masks known, named by site.

    Validation cases have the masks that their sites gave them: a real site knows no better ones.
    """
    kept = federation.validation
    both = (*federation.sites.items(), *kept.items())
    owner = {int(k): name for name, index in both for k in index}
    given = federation.train
    given = replace(given, sites=tuple(owner.get(k, "") for k in range(len(given))))
    clean = federation.clean_masks
    train = given if clean is None else replace(given, masks=clean)
    kept_at = np.concatenate([np.zeros(0, np.intp), *(kept[site] for site in sorted(kept))])
    return {
        "train": (train, np.setdiff1d(np.arange(len(train)), kept_at)),
        "test": (federation.test, np.arange(len(federation.test))),
        "validation": (given, kept_at),
    }


def devices_of(wanted: str, gpus: int | None = None) -> list[str]:
    """Return the devices that workers take in turn, of ``engine.device`` and the number of GPUs.

    >>> devices_of("auto", 2), devices_of("cuda:1", 2), devices_of("auto", 0)
    (['cuda:0', 'cuda:1'], ['cuda:1'], ['cpu'])
    """
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    if wanted == "cpu" or gpus == 0:
        return ["cpu"]
    return [f"cuda:{k}" for k in range(gpus)] if wanted in ("auto", "cuda") else [wanted]


def worker_count(job: Job, sites: int) -> int:
    """Return how many processes to use: by default one per GPU, or one per core without any."""
    wanted = job.recipe.engine.workers
    if wanted == "auto":
        devices = devices_of(job.recipe.engine.device)
        wanted = cores() if devices == ["cpu"] else len(devices)
    return max(1, min(wanted, sites))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for torch and BLAS: sums then have one order, and teams do not stall."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
