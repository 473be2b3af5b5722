"""Exact running statistics of BatchNorm: measured at the sites with the merged network, and pooled.

Averaging the sites' running means and variances leaves out how far the sites' means lie apart, and
running statistics lag behind weights that moved within a few steps. Here every site passes over its
cases once with the merged network, without training, and sends per layer the number of values, and
per channel their mean and variance. Pooled by number of values, these are the moments over the
images of all sites together, whoever has how much say in the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from feda3i.core.layout import Entry, Layout
from feda3i.core.messages import Floats, Numbers, Params, Replies
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor, nn

NUMBERS = ("elements", "mean", "variance")
"""What a site sends: values per layer, then mean and variance per channel, layer after layer."""
LIMITS = {"elements": (0, 10**15), "mean": (-1e14, 1e14), "variance": (0, 1e29)}
"""What these numbers can be: squares of means and variances pooled from them fit into a reply."""
Moments = tuple[int, Floats, Floats]
"""Number of values, mean and variance per channel."""


@dataclass(frozen=True)
class Norm:
    """A layer that keeps running statistics: its path in the network, and where they lie."""

    path: str
    mean: Entry
    variance: Entry

    @property
    def channels(self) -> int:
        """Return how many channels it normalises."""
        return self.mean.stop - self.mean.start


def norms_of(layout: Layout) -> tuple[Norm, ...]:
    """Return the layers with running statistics, in order of the state dict."""
    entries = {entry.name: entry for entry in layout.floats}
    return tuple(
        Norm(name.rpartition(".")[0], entry, entries[name.removesuffix("mean") + "var"])
        for name, entry in entries.items()
        if name.rpartition(".")[2] == "running_mean"
    )


def check_norms(network: nn.Module, layout: Layout) -> None:
    """Raise ``RecipeError`` unless the network has BatchNorm, and no other running statistics."""
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = norms_of(layout)
    if not norms:
        raise RecipeError(
            'model.statistics = "exact": this network keeps no running statistics, so there is '
            "nothing to measure; leave the key out"
        )
    for norm in norms:
        module = network.get_submodule(norm.path)
        if not isinstance(module, _BatchNorm):
            raise RecipeError(
                f'model.statistics = "exact": expected BatchNorm as the only layers with running '
                f"statistics, found {norm.path}: {type(module).__name__}"
            )


def measure(network: nn.Module, layout: Layout, batches: Iterable[Tensor]) -> Numbers:
    """Return the moments of what enters every BatchNorm layer, over all images.

    Each batch ``(case, channel, *space)`` is normalised by its own statistics, as in training; all
    else is in eval mode, and the network is left as it was.
    """
    import torch

    norms = norms_of(layout)
    seen: list[list[Moments]] = [[] for _ in norms]
    with _measuring(network, norms, seen), torch.no_grad():
        for images in batches:
            network(images)
    pooled = [pool(rows, norm.channels) for rows, norm in zip(seen, norms, strict=True)]
    return {
        "elements": [count for count, _, _ in pooled],
        "mean": [value for _, mean, _ in pooled for value in mean.tolist()],
        "variance": [value for _, _, variance in pooled for value in variance.tolist()],
    }


@contextmanager
def _measuring(
    network: nn.Module, norms: Sequence[Norm], seen: Sequence[list[Moments]]
) -> Iterator[None]:
    modes = {module: module.training for module in network.modules()}
    layers: list[Any] = [network.get_submodule(norm.path) for norm in norms]
    network.eval()
    hooks = []
    for layer, rows in zip(layers, seen, strict=True):
        # In training mode without tracking, a layer uses the batch's statistics and keeps nothing.
        layer.train()
        layer.track_running_stats = False
        hooks.append(layer.register_forward_pre_hook(partial(_see, rows)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            layer.track_running_stats = True
        for module, was_training in modes.items():
            module.training = was_training


def _see(rows: list[Moments], layer: Any, inputs: tuple[Tensor, ...]) -> None:
    import torch

    values = inputs[0].detach().to(torch.float64)
    axes = [axis for axis in range(values.ndim) if axis != 1]
    variance, mean = torch.var_mean(values, dim=axes, correction=0)
    rows.append((values.numel() // values.shape[1], mean.cpu().numpy(), variance.cpu().numpy()))


def pool(rows: Sequence[Moments], channels: int) -> Moments:
    """Return the moments of all values together, from those of parts.

    >>> n, mean, variance = pool([(2, np.array([1.0]), np.array([0.0])),
    ...                           (2, np.array([3.0]), np.array([0.0]))], 1)
    >>> (n, mean.tolist(), variance.tolist())
    (4, [2.0], [1.0])
    """
    count = sum(n for n, _, _ in rows)
    mean, variance = np.zeros(channels), np.zeros(channels)
    if not count:
        return 0, mean, variance
    for n, part, _ in rows:
        mean += n / count * part
    for n, part, spread in rows:
        variance += n / count * (spread + (part - mean) ** 2)
    return count, mean, variance


def with_statistics(params: Params, layout: Layout, replies: Replies) -> Params:
    """Return the parameters with the pooled statistics of all replies.

    A layer that no image reached keeps what it has.
    """
    norms = norms_of(layout)
    values = params.values.copy()
    start = 0
    for row, norm in enumerate(norms):
        part = slice(start, start + norm.channels)
        found = [_moments(reply.numbers, row, part) for reply in replies]
        count, mean, variance = pool(found, norm.channels)
        if count:
            values[norm.mean.start : norm.mean.stop] = mean
            values[norm.variance.start : norm.variance.stop] = variance
        start = part.stop
    return Params(values, params.counts)


def _moments(numbers: Numbers, row: int, part: slice) -> Moments:
    elements, mean, variance = (cast("list[float]", numbers[name]) for name in NUMBERS)
    return int(elements[row]), np.asarray(mean[part]), np.asarray(variance[part])


def lengths_of(layout: Layout) -> dict[str, int]:
    """Return how many entries each number of a measurement of this network has."""
    norms = norms_of(layout)
    channels = sum(norm.channels for norm in norms)
    return dict(zip(NUMBERS, (len(norms), channels, channels), strict=True))
