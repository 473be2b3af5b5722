"""Plant mistakes into the code, one by one, and show which golden numbers notice.

python tests/golden/plant.py [WORD ...]    all plants, or those whose text holds a word
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import golden_bits
import golden_run
import numpy as np
import torch
from scipy import ndimage

Change = Callable[[Any], Any]
LEAST = 10 * golden_run.TOLERANCE
"""Every plant moves some number of its row by this at least."""


@dataclass(frozen=True)
class Plant:
    """A mistake: what it is, the row or hash that must notice, what is replaced and by what."""

    text: str
    row: str
    target: str
    change: Change

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Make the mistake within this context."""
        module, _, path = self.target.partition(":")
        *outer, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for part in outer:
            owner = getattr(owner, part)
        with mock.patch.object(owner, name, self.change(getattr(owner, name))):
            yield

    def moved(self) -> dict[str, tuple[float, Any, Any]]:
        """Return what moved: ``path -> (distance, expected, found)``, farthest first."""
        with self.planted():
            if self.row in golden_bits.THINGS:
                found = {self.row: golden_bits.bits_of(self.row)}
                return golden_run.compare(found, {self.row: golden_bits.read_bits()[self.row]})
            return golden_run.compare(golden_run.row_of(self.row), golden_run.read_rows()[self.row])


def times(factor: float) -> Change:
    """Multiply what the function returns."""
    return lambda f: lambda *a, **k: factor * f(*a, **k)


def one_round_early(f: Any) -> Any:
    """Ask for the plan of the next round."""
    return lambda self, server, round: f(self, server, round + 1)


def one_epoch_more(f: Any) -> Any:
    """Train an epoch too many."""

    def train(site: Any, *a: Any, **k: Any) -> Any:
        more = site.training.model_copy(update={"epochs": site.training.epochs + 1})
        return f(replace(site, training=more), *a, **k)

    return train


def without_statistics(f: Any) -> Any:
    """Let a network keep its own running statistics when it receives parameters."""

    def write(self: Any, params: Any, network: Any) -> None:
        before = {name: buffer.clone() for name, buffer in network.named_buffers()}
        f(self, params, network)
        with torch.no_grad():
            for name, buffer in network.named_buffers():
                buffer.copy_(before[name])

    return write


def other_sign_of_mu(f: Any) -> Any:
    """Let those who draw too large draw too small."""
    return lambda *a, **k: {site: replace(one, mu=-one.mu) for site, one in f(*a, **k).items()}


def exchanged(f: Any) -> Any:
    """Return the second thing first."""
    return lambda *a, **k: tuple(f(*a, **k))[::-1]


PLANTS = (
    Plant("an epoch too many", "fedavg", "feda3i.core.site:Site.train", one_epoch_more),
    Plant(
        "every site weighs the same, however many cases it has",
        "fedavg",
        "feda3i.core.server:Gathered.fold",
        lambda f: lambda self, weights, whole: f(self, [1.0] * len(weights), whole),
    ),
    Plant(
        "running statistics of BatchNorm left out of what is exchanged",
        "fedavg",
        "feda3i.core.layout:Layout.write",
        without_statistics,
    ),
    Plant(
        "the cases of an epoch are not shuffled",
        "fedavg",
        "feda3i.core.site:Site.rng",
        lambda f: lambda *a: mock.Mock(permutation=np.arange),
    ),
    Plant(
        "Adam's second moment with 0.999 instead of the recipe's 0.99",
        "fedavg",
        "torch.optim:Adam",
        lambda f: lambda p, lr, betas, **k: f(p, lr=lr, betas=(betas[0], 0.999), **k),
    ),
    Plant(
        "Dice loss with 0.6 of cross-entropy instead of 0.5",
        "fedavg, dice",
        "feda3i.losses:cross_entropy_and_dice",
        lambda f: lambda z, y: f(z, y, 0.6),
    ),
    Plant(
        "a survey one round early", "feda3i", "feda3i.methods.feda3i:FedA3I.plan", one_round_early
    ),
    Plant(
        "quality weights by the square of max s - s (Eq. 6)",
        "feda3i",
        "feda3i.quality.weights:strengths",
        lambda f: lambda *a: -((f(*a).max() - f(*a)) ** 2),
    ),
    Plant(
        "alpha_j = j / L instead of (j - 1) / (L - 1) (Eq. 7)",
        "feda3i",
        "feda3i.quality:mix_by_stage",
        lambda f: lambda quantity, quality, stages, power: f(quantity, quality, stages + 1)[:, 1:],
    ),
    Plant(
        "the survey takes the losses inside the contour for those outside",
        "feda3i, two classes",
        "feda3i.quality.survey:learning_difficulty",
        lambda f: lambda *a: f(*a)[::-1],
    ),
    Plant(
        "the regions reach a pixel too far",
        "feda3i",
        "feda3i.quality.survey:boundary_regions",
        lambda f: lambda *a: tuple(ndimage.binary_dilation(band) for band in f(*a)),
    ),
    Plant(
        "IOP-FL: alpha weighs the last network instead of the history",
        "iopfl",
        "feda3i.methods.iopfl:IOPFL.moved",
        lambda f: lambda self, before, after: f(self, after, before),
    ),
    Plant(
        "FedSelect: V moves up the loss on the proxy set",
        "fedselect",
        "feda3i.methods.fedselect:weight_slopes",
        times(-1.0),
    ),
    Plant(
        "the proximal term pushes away",
        "fedprox",
        "feda3i.methods.fedprox:squared_distance",
        times(-1.0),
    ),
    Plant("the sign of ELR's regulariser", "elr", "feda3i.losses:early_learning", times(-1.0)),
    Plant(
        "GCE with q = 0.75 instead of 0.7",
        "gce",
        "feda3i.losses:gce",
        lambda f: lambda z, y, q: f(z, y, 0.75),
    ),
    Plant(
        "SCE with alpha and beta exchanged",
        "sce",
        "feda3i.losses:sce",
        lambda f: lambda z, y, alpha, beta, clamp: f(z, y, beta, alpha, clamp),
    ),
    Plant(
        "NR-Dice with gamma = 2 instead of 1.5",
        "nr-dice",
        "feda3i.losses:nr_dice",
        lambda f: lambda z, y, gamma: f(z, y, 2.0),
    ),
    Plant(
        "FedMix prefers low losses",
        "fedmix",
        "feda3i.methods.fedmix:mixed_weights",
        lambda f: lambda cases, loss, exponent, lam: f(cases, loss, -exponent, lam),
    ),
    Plant(
        "FedDM's nearest peer taken for the farthest",
        "feddm",
        "feda3i.methods.feddm:choose_peers",
        exchanged,
    ),
    Plant(
        "FedNoRo: KL the wrong way round",
        "fednoro",
        "feda3i.losses:bernoulli_kl",
        lambda f: lambda teacher, student: f(student, teacher),
    ),
    Plant(
        "FedCorr relabels one pixel too many",
        "fedcorr",
        "feda3i.methods.fedcorr:highest",
        lambda f: lambda losses, count: f(losses, count + 1),
    ),
    Plant(
        "ADELE without the agreement of scales",
        "adele",
        "feda3i.methods.adele:ADELE.agreement",
        times(0.0),
    ),
    Plant(
        "RMD: each network learns from the pixels of its own choice",
        "rmd",
        "feda3i.methods.rmd:_OTHER",
        lambda pairs: ((0, 0), (1, 1)),
    ),
    Plant(
        "central trains site by site", "central", "feda3i.simulation.views:VIEWS", lambda views: {}
    ),
    Plant("clean sees the noisy masks", "clean", "feda3i.simulation.views:VIEWS", lambda views: {}),
    Plant(
        "local sends the mean back instead of a site's own network",
        "local",
        "feda3i.methods.local:Local.fit",
        lambda f: lambda self, site: site.train(lambda batch: self.step(site, batch)),
    ),
    Plant(
        "annotators with the sign of mu turned round",
        "noise contour",
        "feda3i.simulation.annotation:annotators_of_setting",
        other_sign_of_mu,
    ),
    Plant(
        "the noise of a case forgets its site",
        "noise levelset",
        "feda3i.seeding:derive",
        lambda f: lambda seed, *scope: f(seed, *scope[:1], *scope[2:]),
    ),
    Plant(
        "cases dealt out the other way round",
        "partition iid",
        "feda3i.data.partition:_deal",
        lambda f: lambda order, parts: f(order[::-1], parts),
    ),
    Plant(
        "distances to the contour counted in city blocks",
        "regions",
        "cv2:distanceTransform",
        lambda f: lambda image, kind, mask: f(image, 1, 3),
    ),
    Plant(
        "larger and smaller groups exchanged",
        "groups by mixture",
        "feda3i.quality.weights:_larger",
        lambda f: lambda *a: 1 - f(*a),
    ),
)


if __name__ == "__main__":
    words = sys.argv[1:]
    for chosen in PLANTS:
        if not words or any(word in chosen.text for word in words):
            moved = chosen.moved()
            print(f"{chosen.text}\n  row '{chosen.row}': {len(moved)} numbers moved", flush=True)
            for place, (far, expected, found) in list(moved.items())[:3]:
                print(f"    {place:34} {expected} -> {found}   ({far:.2g})")
