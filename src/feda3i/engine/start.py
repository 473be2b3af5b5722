"""What every method of a comparison starts from, as hashes: initial weights, order of the cases."""

from __future__ import annotations

import hashlib

import numpy as np

from feda3i.core.cases import Federation
from feda3i.engine.job import Job
from feda3i.seeding import rng


def start_of(job: Job, federation: Federation) -> dict[str, str]:
    """Return hashes of the first network's initial weights and of the order that cases come in.

    The order is that of ``Site.batches`` in the first and in the last round, every epoch, for the
    sites as they are before a reference row pools them.
    """
    return {"weights_sha256": _weights(job), "order_sha256": _order(job, federation)}


def _weights(job: Job) -> str:
    sha = hashlib.sha256()
    for name, tensor in job.first_network().state_dict().items():
        sha.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        sha.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return sha.hexdigest()


def _order(job: Job, federation: Federation) -> str:
    recipe = job.recipe
    sha = hashlib.sha256(f"{recipe.train.batch}".encode())
    for site in federation.names():
        count = len(federation.sites[site])
        for number in sorted({1, recipe.rounds}):
            for epoch in range(recipe.train.epochs):
                order = rng(recipe.seed, "batches", epoch, site, number).permutation(count)
                sha.update(order.astype("<i8").tobytes())
    return sha.hexdigest()
