"""Plant mistakes into the code, one by one, and show which golden numbers notice.

python tests/golden/plant.py [WORD ...]    all plants, or those whose text holds a word
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import neg
from typing import Any
from unittest import mock

import golden_bits
import golden_run
import numpy as np
import torch
from scipy import ndimage

Change = Callable[[Any], Any]
ROWS, BITS = (json.loads(m.EXPECTED.read_text("utf-8")) for m in (golden_run, golden_bits))
LEAST = 10 * golden_run.TOLERANCE
"""Every plant moves some number of its row by this at least."""


@dataclass(frozen=True)
class Plant:
    """A mistake: its name, the row or hash that must notice, what is replaced in feda3i, how."""

    text: str
    row: str
    target: str
    change: Change

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Make the mistake within this context."""
        module, _, path = self.target.partition(":")
        *outer, name = path.split(".")
        owner: Any = importlib.import_module(f"feda3i.{module}")
        for part in outer:
            owner = getattr(owner, part)
        with mock.patch.object(owner, name, self.change(getattr(owner, name))):
            yield

    def moved(self) -> dict[str, tuple[float, Any, Any]]:
        """Return what moved: ``path -> (distance, expected, found)``, farthest first."""
        with self.planted():
            if self.row in golden_bits.THINGS:
                found = {self.row: golden_bits.bits_of(self.row)}
                return golden_run.compare(found, {self.row: BITS[self.row]})
            return golden_run.compare(golden_run.row_of(self.row), ROWS[self.row])


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


def no_statistics(f: Any) -> Any:
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


def argument(place: int, change: Change) -> Change:
    """Change one of the arguments."""
    return lambda f: lambda *a: f(*a[:place], change(a[place]), *a[place + 1 :])


def arguments_exchanged(f: Any) -> Any:
    """Exchange the last two arguments."""
    return lambda *a: f(*a[:-2], a[-1], a[-2])


def unshuffled(f: Any) -> Any:
    """Let every order be that of the cases."""
    return lambda *a: mock.Mock(permutation=np.arange)


def slower(f: Any) -> Any:
    """Take 0.999 instead of the recipe's second 0.99."""
    return lambda p, lr, betas, **k: f(p, lr=lr, betas=(betas[0], 0.999), **k)


def wider(f: Any) -> Any:
    """Let masks grow by a pixel."""
    return lambda *a: tuple(ndimage.binary_dilation(band) for band in f(*a))


def as_fedavg(f: Any) -> Any:
    """Train, and send what was received instead of a network of one's own."""
    return lambda self, site: site.train(lambda batch: self.step(site, batch))


def other_group(f: Any) -> Any:
    """Name the other of two groups."""
    return lambda *a: 1 - f(*a)


PLANTS = (
    Plant("an epoch too many", "fedavg", "core.site:Site.train", one_epoch_more),
    Plant(
        "every site weighs the same", "fedavg", "core.server:Gathered.fold", argument(1, np.sign)
    ),
    Plant(
        "running statistics are not exchanged", "fedavg", "core.layout:Layout.write", no_statistics
    ),
    Plant("cases are not shuffled", "fedavg", "core.site:Site.rng", unshuffled),
    Plant("Adam's second moment with 0.999", "fedavg", "core.stepper:torch.optim.Adam", slower),
    Plant(
        "Dice loss with 0.6 of cross-entropy instead of 0.5",
        *("fedavg, dice", "losses:cross_entropy_and_dice"),
        lambda f: lambda z, y: f(z, y, 0.6),
    ),
    Plant("a survey one round early", "feda3i", "methods.feda3i:FedA3I.plan", one_round_early),
    Plant(
        "quality weights by the square of max s - s (Eq. 6)",
        *("feda3i", "quality.weights:strengths"),
        lambda f: lambda *a: -((f(*a).max() - f(*a)) ** 2),
    ),
    Plant(
        "alpha_j = j / L instead of (j - 1) / (L - 1) (Eq. 7)",
        *("feda3i", "quality:mix_by_stage"),
        lambda f: lambda quantity, quality, stages, power: f(quantity, quality, stages + 1)[:, 1:],
    ),
    Plant(
        *("loss inside for outside", "feda3i, two classes", "quality.survey:learning_difficulty"),
        exchanged,
    ),
    Plant("regions reach a pixel too far", "feda3i", "quality.survey:boundary_regions", wider),
    Plant("IOP-FL: history and present", "iopfl", "methods.iopfl:IOPFL.moved", arguments_exchanged),
    Plant("FedSelect: V moves uphill", "fedselect", "methods.fedselect:weight_slopes", times(-1.0)),
    Plant("the proximal term pushes", "fedprox", "methods.fedprox:squared_distance", times(-1.0)),
    Plant("the sign of ELR's regulariser", "elr", "losses:early_learning", times(-1.0)),
    Plant("GCE with q = 0.75", "gce", "losses:gce", argument(2, lambda q: 0.75)),
    Plant(
        "SCE with alpha and beta exchanged",
        *("sce", "losses:sce"),
        lambda f: lambda z, y, alpha, beta, clamp: f(z, y, beta, alpha, clamp),
    ),
    Plant("NR-Dice, gamma = 2", "nr-dice", "losses:nr_dice", argument(2, lambda gamma: 2.0)),
    Plant("FedMix prefers low losses", "fedmix", "methods.fedmix:mixed_weights", argument(2, neg)),
    Plant("FedDM's peers exchanged", "feddm", "methods.feddm:choose_peers", exchanged),
    Plant("FedNoRo: KL the wrong way round", "fednoro", "losses:bernoulli_kl", arguments_exchanged),
    Plant(
        *("FedCorr relabels one pixel too many", "fedcorr", "methods.fedcorr:highest"),
        argument(1, lambda count: count + 1),
    ),
    Plant("ADELE without agreement", "adele", "methods.adele:ADELE.agreement", times(0.0)),
    Plant("RMD: own choice of pixels", "rmd", "methods.rmd:_OTHER", lambda pairs: ((0, 0), (1, 1))),
    Plant("central trains site by site", "central", "simulation.views:VIEWS", lambda views: {}),
    Plant("clean sees the noisy masks", "clean", "simulation.views:VIEWS", lambda views: {}),
    Plant("local sends the mean", "local", "methods.local:Local.fit", as_fedavg),
    Plant(
        "annotators with the sign of mu turned round",
        *("noise contour", "simulation.annotation:annotators_of_setting"),
        other_sign_of_mu,
    ),
    Plant(
        "the noise of a case forgets its site",
        *("noise levelset", "seeding:derive"),
        lambda f: lambda seed, *scope: f(seed, *scope[:1], *scope[2:]),
    ),
    Plant(
        "cases dealt out backwards", "partition iid", "data.partition:_deal", argument(0, np.flip)
    ),
    Plant(
        "distances to the contour counted in city blocks",
        *("regions", "geometry:cv2.distanceTransform"),
        lambda f: lambda image, kind, mask: f(image, 1, 3),
    ),
    Plant("groups exchanged", "groups by mixture", "quality.weights:_larger", other_group),
)


if __name__ == "__main__":
    words = sys.argv[1:]
    for chosen in PLANTS:
        if not words or any(word in chosen.text for word in words):
            moved = chosen.moved()
            print(f"{chosen.text}\n  row '{chosen.row}': {len(moved)} numbers moved", flush=True)
            for place, (far, expected, found) in list(moved.items())[:3]:
                print(f"    {place:34} {expected} -> {found}   ({far:.2g})")
