"""Add up updates that point against each other without letting them cancel (FedDM's HGD).

In a tree of pairs; in a pair with a negative inner product each loses its part along the other. The
update that agrees most with earlier results meets the one that agrees least.
"""

from collections.abc import Sequence

import numpy as np

from feda3i.core.layout import Layout
from feda3i.core.messages import Floats

Span = tuple[int, int]
_TINY = 1e-12


def deconflicted_mean(updates: Floats, history: Floats) -> Floats:
    """Return the de-conflicted mean of updates ``(site, value)``, in a fixed order of sites.

    The history ``(value,)``, a running mean of earlier results, only decides who meets whom.
    """
    vectors = list(updates)
    while len(vectors) > 2:
        vectors = _level(vectors, history)
    total = vectors[0] if len(vectors) == 1 else add_pair(vectors[0], vectors[1])
    return total / len(updates)


def add_pair(a: Floats, b: Floats) -> Floats:
    """Return the sum of two vectors, each without its part against the other."""
    inner = float(a @ b)
    if inner >= 0:
        return a + b
    in_a, in_b = float(a @ a), float(b @ b)
    if min(in_a, in_b) < _TINY**2:  # nothing to project on
        return a + b
    return (a - inner / in_b * b) + (b - inner / in_a * a)


def _level(vectors: Sequence[Floats], history: Floats) -> list[Floats]:
    """Pair the most agreeing vector with the least agreeing, the second with the second-last."""
    length = max(float(np.sqrt(history @ history)), _TINY)
    scores = np.array([float(vector @ history) for vector in vectors]) / length
    order = np.argsort(-scores, kind="stable")
    half = len(order) // 2
    paired = [add_pair(vectors[order[k]], vectors[order[-1 - k]]) for k in range(half)]
    if len(order) % 2:
        paired.append(vectors[order[half]])
    return paired


def groups_of(layout: Layout) -> list[Span]:
    """Return runs of values that are de-conflicted together, as ``(start, stop)``.

    A module with a tensor of two or more dimensions (a convolution) begins a group; modules of
    vectors only that follow it (BatchNorm with its running statistics) belong to it.
    """
    heads = {_module(entry.name) for entry in layout.floats if len(entry.shape) > 1}
    groups: list[Span] = []
    before: str | None = None
    for entry in layout.floats:
        module = _module(entry.name)
        if not groups or (module != before and module in heads):
            groups.append((entry.start, entry.stop))
        else:
            groups[-1] = (groups[-1][0], entry.stop)
        before = module
    return groups


def _module(name: str) -> str:
    return name.rpartition(".")[0]
