"""Find for every site the sites whose networks predict most and least alike (FedDM)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from feda3i.core.messages import Floats
from feda3i.core.predictor import Predictor, channels_last
from feda3i.core.server import Gathered, Server

Choice = NDArray[np.intp]
_CHUNK = 8
_MAPS = 128 * 2**20
"""Bytes of probability maps held at once; fewer images are taken together if they need more."""


def choose_peers(server: Server, gathered: Gathered, probes: int) -> tuple[Choice, Choice]:
    """Let random images vote on the nearest and the farthest other network of each site.

    The networks of two or more sites are as they were uploaded. The images are ``probes`` many,
    uniform in 0..255; image i is always the same one in a run. Both results are ``(site,)``
    positions: never the site itself, and the lowest for equal votes.
    """
    form = server.format
    bytes_per_probe = 4 * len(gathered) * form.classes * math.prod(form.shape)
    chunk = max(1, min(_CHUNK, _MAPS // bytes_per_probe))
    predictor = server.predictor(gathered.params(0))
    last = channels_last(form.dimensions)
    votes = Votes(len(gathered))
    for start in range(0, probes, chunk):
        images = _images(server, range(start, min(start + chunk, probes)))
        maps = _answers(gathered, predictor, images.to(predictor.device, memory_format=last))
        for k in range(len(images)):
            votes.count(maps[:, k])
    return votes.near.argmax(axis=1), votes.far.argmax(axis=1)


class Votes:
    """How often each site was the nearest and the farthest of each other, ``(site, site)``."""

    def __init__(self, sites: int) -> None:
        self.near = np.zeros((sites, sites), np.int64)
        self.far = np.zeros((sites, sites), np.int64)

    def count(self, maps: NDArray[np.float32]) -> None:
        """Add the vote of one image, given what every site's network says of it."""
        from scipy.spatial.distance import pdist, squareform

        # Differences, no inner products: networks are alike, and a difference of large products
        # would lose the digits that tell them apart.
        distances: Floats = squareform(pdist(maps.reshape(len(maps), -1), "sqeuclidean"))
        sites = np.arange(len(maps))
        distances[sites, sites] = np.inf
        self.near[sites, distances.argmin(axis=1)] += 1
        distances[sites, sites] = -np.inf
        self.far[sites, distances.argmax(axis=1)] += 1


def _images(server: Server, numbers: range) -> Tensor:
    shape = (server.format.channels, *server.format.shape)
    images = [server.rng("probe", i).random(shape, dtype=np.float32) for i in numbers]
    return torch.from_numpy(255 * np.stack(images)).to(torch.get_default_dtype())


def _answers(gathered: Gathered, predictor: Predictor, images: Tensor) -> NDArray[np.float32]:
    """Return the probabilities ``(site, image, class, *space)`` of all networks."""
    answers: list[NDArray[np.float32]] = []
    for k in range(len(gathered)):
        logits = predictor.load(gathered.params(k)).logits(images)
        answers.append(torch.sigmoid(logits).cpu().numpy())
    return np.stack(answers)
