"""A site with a tiny network, for tests that look at one hook of a method; and tiny runs."""

import json
import math

import numpy as np
from torch import nn

from feda3i.core.messages import Order
from feda3i.engine.host import SiteHost
from feda3i.engine.run import job_of
from feda3i.testing import Subject, outcome_of, tiny_federation
from stepping import unequal, with_noisy

_PLAYED = {}
PLAIN = f"{__file__}:plain_network"


def plain_network(channels, classes, dimensions=2):
    """Return three convolutions: no BatchNorm, no dropout in an encoder."""
    conv = {2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    first, second = conv(channels, 4, 3, padding=1), conv(4, 4, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), conv(4, classes, 1))


def station_of(folder, name, federation=None, model=None, train=None, seed=0, **options):
    """Return a station that can answer for every site of a tiny federation."""
    federation = tiny_federation() if federation is None else federation
    changes = {"seed": seed, "train": {"epochs": 1, "batch": 2, **(train or {})}}
    if model is not None:
        changes["model"] = {"name": model}
    job = job_of(Subject(name, options).recipe(**changes), federation)
    return SiteHost(job, federation.train, federation.sites, folder)


def site_of(folder, name, round=1, settings=None, **options):
    """Return site-1 with the initial network, as a method sees it."""
    station = station_of(folder, name, **options)
    order = Order("fit", round, "site-1", station.job.initial, settings or {})
    site = station._site(order, {})
    site.method = station.job.method  # for tests that call its hooks
    return site


def four_sites():
    """Return four sites, the last of which draws everything inside out."""
    return with_noisy(tiny_federation(sites=4), "site-4")


def unpack_masks(bits, shape):
    """Return what ``pack_masks`` was given; ``shape`` is that of one case."""
    flat = np.unpackbits(bits, axis=1, count=math.prod(shape)).view(np.bool_)
    return flat.reshape(len(bits), *shape)


def final_values(name, options=None, rounds=3, **changes):
    """Return the parameters after a tiny run on unequal sites, of which the last is noisy."""
    key = (name, json.dumps([options or {}, rounds, changes], sort_keys=True))
    if key not in _PLAYED:  # equal runs are played once
        recipe = Subject(name, options or {}).recipe(rounds=rounds, **changes)
        _PLAYED[key] = outcome_of(recipe, with_noisy(unequal(), "site-3")).params.values
    return _PLAYED[key]
