"""Predictors of any format around a network of one convolution, for tests of exports."""

import torch

from feda3i.core.format import Format
from feda3i.core.predictor import Predictor
from feda3i.engine.run import job_of
from feda3i.testing import Subject, tiny_federation


def predictor_of(shape=(32, 32), channels=1, classes=1, **form):
    """Return a predictor whose network answers with smooth, uneven maps, both sides of one half."""
    torch.manual_seed(0)
    kind, pad = (torch.nn.Conv2d, 4) if len(shape) == 2 else (torch.nn.Conv3d, 2)
    network = torch.nn.Sequential(kind(channels, classes, 2 * pad + 1, padding=pad))
    with torch.no_grad():
        network[0].weight /= 20
        network[0].bias -= 128 * network[0].weight.flatten(1).sum(1)
    made = Format(channels, classes, shape, **form)
    return Predictor(network, job_of_layout(), made)


def job_of_layout():
    return job_of(Subject("fedavg", {}).recipe(), tiny_federation(sites=1, cases=1)).layout
