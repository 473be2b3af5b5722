"""The guard against a bad site: far updates are left out, and a model that is not sane is undone.

An update is compared with the others of its round before it is merged. What a merge made is known
in the next round only: if the loss explodes at half of the sites, the run goes back to the round
before the merge and leaves out the site whose update stood out most in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats, Missing, Reply
from feda3i.core.server import Gathered, Server
from feda3i.engine.events import Event, read_events
from feda3i.errors import RunError

_BLOCK = 1 << 16
FEWEST = 3  # sites below which a median says nothing about a single one
EXPLODED = 10.0
"""Times the median loss of the round before (or 1, if that is more) that no sane model reaches."""
STANDS_OUT = 2.0  # times the median norm from which an update may be what made a model explode


class UnsoundError(RunError):
    """A model is not sane: not finite, or the loss explodes at half of the sites that have it."""


@dataclass
class Guard:
    """What the guard of a run knows, all of it from the event log."""

    factor: float
    loss: float | None = None  # the median over the sites in the last round
    ratios: dict[str, float] = field(default_factory=dict)  # of what the last round merged
    barred: dict[str, str] = field(default_factory=dict)  # sites left out from now on, and why

    @classmethod
    def of_log(cls, events: Path, factor: float) -> Guard:
        """Return the guard as it was after the last event of a log."""
        guard = cls(factor)
        for event in read_events(events) if events.exists() else ():
            guard.take(event)
        return guard

    def take(self, event: Event) -> None:
        """Learn from an event: the losses and the updates of a round, or who was left out."""
        if event["event"] == "undone":
            self.barred[event["site"]] = event["reason"]
        elif event["event"] == "round":
            self.loss = float(np.median(list(event["site_loss"].values())))
            left_out = event.get("guarded", {})
            self.ratios = {
                site: math.inf if ratio is None else ratio  # JSON knows no infinity
                for site, ratio in event.get("guard", {}).items()
                if site not in left_out
            }

    def check(self, kept: Sequence[Reply], missing: Sequence[Missing]) -> None:
        """Raise ``UnsoundError`` if the loss exploded at half of the sites that trained."""
        if self.loss is None:
            return
        most = EXPLODED * max(self.loss, 1.0)
        diverged = sum(miss.has_diverged for miss in missing)
        losses = np.array([reply.numbers["loss"] for reply in kept], dtype=np.float64)
        exploded = diverged + int((losses > most).sum())
        trained = diverged + len(kept)
        if exploded and 2 * exploded >= trained:
            raise UnsoundError(
                f"the loss exploded at {exploded} of {trained} sites (above {most:.3g}, or not "
                f"finite)"
            )

    def leave_out(
        self, server: Server, kept: Sequence[Reply], gathered: Gathered
    ) -> tuple[list[Reply], list[Missing]]:
        """Return the replies that count and those left out; ``gathered`` keeps the former only."""
        names = [reply.site for reply in kept]
        found = norm_ratios(gathered.rows, server.params.values, server.layout.trained())
        far = far_off(found, self.factor)
        ratios = zip(names, found.tolist(), strict=True)
        server.record(guard={name: round(ratio, 3) for name, ratio in ratios})
        if not far:
            return list(kept), []
        reasons = {
            names[k]: f"its update is {found[k]:.3g} times the median of the round" for k in far
        }
        server.record(guarded={site: f"left out: {why}" for site, why in reasons.items()})
        rest = [k for k in range(len(kept)) if k not in far]
        gathered.keep(rest)
        out = [Missing(site, f"left out by the guard: {why}") for site, why in reasons.items()]
        return [kept[k] for k in rest], out

    def bar(self, error: UnsoundError, sites: int) -> tuple[str, str]:
        """Leave out for good who stood out; return who and why. ``RunError`` if nobody did."""
        site = max(sorted(self.ratios), key=self.ratios.__getitem__, default="")
        is_clear = len(self.ratios) >= FEWEST and self.ratios[site] > STANDS_OUT
        if not is_clear or len(self.barred) + 1 > (sites - 1) // 2:
            raise RunError(
                f"{error}, and no site's update stood out before. The checkpoint is from before; "
                f"try a smaller train.lr, or look at the sites in events.jsonl"
            )
        self.barred[site] = (
            f"left out: its update was {self.ratios[site]:.3g} times the median before {error}"
        )
        return site, self.barred[site]


def norm_ratios(
    rows: NDArray[np.float32], base: NDArray[np.float32], is_trained: NDArray[np.bool_]
) -> Floats:
    """Return the norm of each row's update by the median norm, ``(site,)``.

    Trained values and buffers (running means and variances) are compared apart, since theirs are
    different scales, and the larger ratio counts. With a median of zero most did not move at all:
    whoever did is infinitely far off.
    """
    squares = np.zeros((len(rows), 2))
    for start in range(0, len(base), _BLOCK):  # in blocks: a float64 copy of all would be large
        part = slice(start, start + _BLOCK)
        block = np.square(rows[:, part].astype(np.float64) - base[part])
        squares[:, 0] += block[:, is_trained[part]].sum(axis=1)
        squares[:, 1] += block[:, ~is_trained[part]].sum(axis=1)
    norms = np.sqrt(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = norms / np.median(norms, axis=0)
    return np.asarray(np.nan_to_num(ratios, nan=0.0, posinf=np.inf).max(axis=1))


def far_off(ratios: Floats, factor: float) -> list[int]:
    """Return who is above ``factor`` times the median: the farthest, less than half of all.

    >>> far_off(np.array([1.0, 1.1, 9.0, 0.9]), 3.0), far_off(np.array([0.1, 1.9]), 3.0)
    ([2], [])
    """
    if len(ratios) < FEWEST:
        return []
    found = [k for k, ratio in enumerate(ratios) if ratio > factor]
    farthest = sorted(found, key=lambda k: (-ratios[k], k))
    return sorted(farthest[: (len(ratios) - 1) // 2])
