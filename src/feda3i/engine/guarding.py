"""What the server does about a site that sends nonsense: guard the merge, or merge without weights.

Both need the replies of a round at once; they lie in one buffer, in a file if it is large.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Floats, Missing, Params, Reply
from feda3i.core.robust import (
    Judgement,
    column_median,
    far_off,
    judge,
    opposed,
    trim_count,
    trimmed_mean,
)
from feda3i.core.server import Gathered, Server
from feda3i.recipe.sections import EngineSection


def must_gather(engine: EngineSection) -> bool:
    """Return whether all replies are needed at once, whatever the method says.

    So does the cap on shares: who is above it is known when all have answered.
    """
    return engine.max_share < 1 or engine.guard != "off" or engine.merge != "mean"


def merge_alike(engine: EngineSection, gathered: Gathered) -> Params:
    """Return trimmed mean or median of each parameter; integer buffers take the largest value."""
    rows = gathered.rows
    if engine.merge == "median":
        values = column_median(rows)
    else:
        values = trimmed_mean(rows, trim_count(len(rows), engine.trim))
    return Params(values, gathered.counts.max(axis=0))


def guard(
    engine: EngineSection, server: Server, kept: Sequence[Reply], gathered: Gathered
) -> tuple[list[Reply], list[Missing]]:
    """Clip updates, or leave them out; return who counts and who was left out, and log both."""
    is_trained, base = server.layout.trained(), server.params.values
    judged, medians = judge(gathered.rows, base, is_trained)
    far = far_off(judged, engine.guard_factor)
    against = opposed(judged, far)
    names = [reply.site for reply in kept]
    pairs = zip(names, judged, strict=True)
    server.record(guard={name: [round(j.ratio, 3), round(j.cosine, 3)] for name, j in pairs})
    reasons = {k: f"its update is {judged[k].ratio:.3g} times the median of the round" for k in far}
    for k in against:
        reasons[k] = f"its update opposes the others (cosine {judged[k].cosine:.2f})"
    does = "left out" if engine.guard == "leave-out" else "clipped"
    done = {k: "kept" if does == "clipped" and k in against else does for k in reasons}
    if reasons:
        server.record(guarded={names[k]: f"{done[k]}: {reasons[k]}" for k in sorted(reasons)})
    if does == "clipped":
        for k in far:
            _clip(gathered, k, base, is_trained, judged[k], medians, engine.guard_factor)
        return list(kept), []
    rest = [k for k in range(len(kept)) if k not in reasons]
    gathered.keep(rest)
    out = [Missing(names[k], f"left out by the guard: {reasons[k]}") for k in sorted(reasons)]
    return [kept[k] for k in rest], out


def _clip(
    gathered: Gathered,
    site: int,
    base: NDArray[np.float32],
    is_trained: NDArray[np.bool_],
    judged: Judgement,
    medians: Floats,
    factor: float,
) -> None:
    """Cut an update down to the median norm where it is far above it: weights, buffers, or both."""
    row = gathered.rows[site]
    for part, norm, median in zip((is_trained, ~is_trained), judged.norms, medians, strict=True):
        if norm > factor * median:
            update = row[part].astype(np.float64) - base[part]
            row[part] = base[part] + update * (median / norm)
