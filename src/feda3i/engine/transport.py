"""How orders reach sites on this machine: in this process, or in worker processes of one thread.

Whatever the number of workers, replies come back in the order of the orders, and every site's
answer depends on its order alone: the result of a run is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.engine.job import Job
from feda3i.engine.scoring import Row, join_slices, score_cases, site_means
from feda3i.engine.workers import WorkerPool, usual_workers
from feda3i.errors import RunError, WireError
from feda3i.pool import cores


class Transport(Protocol):
    """What the round loop needs of an engine."""

    def sites(self) -> dict[str, int]:
        """Return the sites that can be asked, with their number of cases."""

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield one answer per order, in the order of the orders."""

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Return the scores of every case of the split ``"test"`` or ``"train"``.

        Of ``"validation"`` the means of each site by class, as ``site_means`` gives them.
        """

    def facts(self) -> dict[str, Any]:
        """Return what the engine adds to a round's event, e.g. bytes sent; then forget it."""

    def close(self) -> None:
        """Release processes and files."""


class LocalTransport:
    """All sites of a federation on this machine; their memory and shared arrays lie in a folder."""

    def __init__(self, job: Job, federation: Federation, folder: Path) -> None:
        self.federation = federation
        self._truth = scored_cases(federation)
        count = worker_count(job, len(federation.sites))
        self._pool: WorkerPool | None = None
        if count > 1:
            self._pool = WorkerPool(job, federation, folder, count)
            return
        from feda3i.engine.host import SiteHost

        self._station = SiteHost(job, federation.train, federation.sites, folder / "memory")

    def sites(self) -> dict[str, int]:
        """Return every site of the federation."""
        return {name: len(self.federation.sites[name]) for name in self.federation.names()}

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield the sites' answers; a failure at one site is a ``Missing`` with the reason."""
        if self._pool is not None:
            yield from self._pool.call(orders)
            return
        for order in orders:
            try:
                yield self._station.answer(order)
            except (RunError, WireError) as error:
                yield Missing(order.site, str(error))

    def score(self, params: Params, split: str, distances: bool) -> list[Row]:
        """Score all cases; train cases against the clean masks where they are known."""
        if self._pool is not None:
            rows = self._pool.score(params, split, distances)
        else:
            cases, where = self._truth[split]
            rows = score_cases(self._station.predictor, params, cases, where, distances)
        rows = join_slices(rows)
        return site_means(rows) if split == "validation" else rows

    def facts(self) -> dict[str, Any]:
        """Return nothing: there is no network."""
        return {}

    def close(self) -> None:
        """Stop the workers."""
        if self._pool is not None:
            self._pool.close()


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
    every = [np.asarray(kept[site]) for site in sorted(kept)]
    kept_at = np.concatenate([np.zeros(0, np.intp), *every])
    return {
        "train": (train, np.setdiff1d(np.arange(len(train)), kept_at)),
        "test": (federation.test, np.arange(len(federation.test))),
        "validation": (given, kept_at),
    }


def worker_count(job: Job, sites: int) -> int:
    """Return how many processes to use: by default one per GPU, or one per core without any."""
    wanted = job.recipe.engine.workers
    if wanted == "auto":
        wanted = usual_workers(job.recipe.engine.device, cores(), job.gpus())
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
