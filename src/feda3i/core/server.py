"""The server's side of a run: global parameters, state as data, and the replies it gathers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.aggregation import combine, fold
from feda3i.core.format import Format
from feda3i.core.layout import Layout
from feda3i.core.messages import Floats, Params, cap_shares
from feda3i.errors import RunError
from feda3i.seeding import rng

if TYPE_CHECKING:
    from feda3i.core.predictor import Predictor

IN_MEMORY = 512 * 2**20
"""Gathered replies above this many bytes go to a file, so that memory stays bounded."""


@dataclass
class Server:
    """What a method sees of the server."""

    layout: Layout
    params: Params  # the current global ones
    sites: Mapping[str, int]  # those known so far, and their number of cases
    format: Format  # channels, classes and size of the cases
    rounds: int  # of the run
    seed: int
    build: Callable[[], Predictor]  # for methods that run a network at the server
    state: dict[str, Any] = field(default_factory=dict)
    """What the method remembers: JSON values, arrays and ``Params`` in dicts and lists. It is in
    every checkpoint; anything kept elsewhere is lost on purpose."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the names of the network's stages from input to output."""
        return self.layout.stages

    def rng(self, *scope: str | int) -> np.random.Generator:
        """Return a generator of the run's seed and this scope."""
        return rng(self.seed, *scope)

    def predictor(self, params: Params) -> Predictor:
        """Return a network with these parameters, for methods that run one here."""
        return self.build().load(params)

    def record(self, **facts: Any) -> None:
        """Put facts about this round into the event log."""
        self.facts.update(facts)


class Gathered:
    """The parameters of all replies of a round as rows of one buffer, in order of the sites."""

    def __init__(
        self, layout: Layout, sites: int, folder: Path | None = None, max_share: float = 1.0
    ) -> None:
        self.layout, self.max_share = layout, max_share
        shape = (sites, layout.size)
        if 4 * sites * layout.size > IN_MEMORY:
            with tempfile.TemporaryFile(dir=folder) as file:  # the map keeps it; no name remains
                self._rows: NDArray[np.float32] = np.memmap(file, layout.dtype, "w+", shape=shape)
        else:
            self._rows = np.empty(shape, layout.dtype)
        self._counts = np.zeros((sites, layout.integers), np.int64)
        self._filled = 0

    def add(self, params: Params) -> None:
        """Take the next site's parameters."""
        self._rows[self._filled] = params.values
        self._counts[self._filled] = params.counts
        self._filled += 1

    def __len__(self) -> int:
        return self._filled

    @property
    def rows(self) -> NDArray[np.float32]:
        """Return the values of all replies, ``(site, value)``."""
        return self._rows[: self._filled]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Return the integer buffers of all replies, ``(site, count)``."""
        return self._counts[: self._filled]

    def keep(self, sites: Sequence[int]) -> None:
        """Forget all rows but these, which are in ascending order."""
        for new, old in enumerate(sites):
            if new != old:
                self._rows[new], self._counts[new] = self._rows[old], self._counts[old]
        self._filled = len(sites)

    def fold(self, weights: Sequence[float], whole: float) -> Params:
        """Return FedAvg's average; where sites are missing, weights do not add up to ``whole``."""
        weight = reduce(add, weights, 0.0)
        if not weight > 0:
            raise RunError("no update has a positive weight, so there is nothing to average")
        total = fold(self.rows, weights)
        total = total if weight == whole else total / weight
        return Params(total.astype(self._rows.dtype), self.counts.max(axis=0, initial=0))

    def params(self, site: int) -> Params:
        """Return a copy of one reply's parameters."""
        return Params(self._rows[site].copy(), self._counts[site].copy())

    def bounded(self, weights: Floats) -> Floats:
        """Return weights ``(site,)`` or ``(site, stage)``, at each stage at most ``max_share``."""
        if self.max_share >= 1 or not np.all(np.isfinite(weights)):
            return weights
        return np.asarray(np.apply_along_axis(cap_shares, 0, weights, self.max_share))

    def combine(self, weights: Floats) -> Params:
        """Return the sum by bounded weights; integer buffers take the largest value."""
        values = combine(self.rows, self.bounded(weights), self.layout.spans())
        return Params(values, self.counts.max(axis=0))
