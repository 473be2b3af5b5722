"""Play a method round by round on tiny discs, with everything open to look at."""

from dataclasses import replace

import numpy as np

from feda3i.core.cases import Cases, Federation
from feda3i.core.messages import Missing, Order, Plan
from feda3i.core.ragged import Ragged
from feda3i.engine.console import Silent
from feda3i.engine.host import SiteHost
from feda3i.engine.loop import Round
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport
from feda3i.methods.base import Method
from feda3i.quality import SIDE, shift_mask
from feda3i.simulation.views import as_trained
from feda3i.testing import Subject, tiny_federation


def recipe(name, options=None, *, rounds=4, **train):
    train = {"epochs": 1, "batch": 2, **train}
    return Subject(name, options or {}).recipe(rounds, train=train, evaluate={})


class Lossy(LocalTransport):
    """Loses the named (site, round, task) and keeps all orders."""

    def __init__(self, *args):
        super().__init__(*args)
        self.lost = set()
        self.orders = []

    def call(self, orders):
        self.orders += orders
        for order, answer in zip(orders, super().call(orders), strict=True):
            is_lost = (order.site, order.round, order.task) in self.lost
            yield Missing(order.site, "lost on purpose") if is_lost else answer


class Steps:
    """A run that stands still between rounds."""

    def __init__(
        self, folder, name, options=None, federation=None, *, rounds=4, given=None, **train
    ):
        self.folder, self.listener = folder, Silent()
        self.federation = tiny_federation() if federation is None else federation
        given = recipe(name, options, rounds=rounds, **train) if given is None else given
        self.job = job_of(given, self.federation)
        self.federation = as_trained(self.federation, self.job.recipe.method.name)
        self.transport = Lossy(self.job, self.federation, folder)
        self.server = self.job.server(self.transport.sites())
        self.job.method.start(self.server)
        self.round = 0

    @property
    def method(self):
        return self.job.method

    @property
    def values(self):
        return self.server.params.values

    def play(self, rounds=1):
        for _ in range(rounds):
            self.round += 1
            event = Round(
                self.job, self.server, self.transport, self.round, self.listener, self.folder
            ).run()
        return event

    def lose(self, site, round, *tasks):
        tasks = tasks or ("offsets", "survey", "fit")
        self.transport.lost |= {(site, round, task) for task in tasks}

    def station(self):
        return SiteHost(
            self.job, self.federation.train, self.federation.sites, self.folder / "memory"
        )

    def site(self, name, **settings):
        """Return a site as a method sees it, with the server's network."""
        order = Order("fit", self.round + 1, name, self.server.params, settings)
        station = self.station()
        station.predictor.load(order.params)
        site = station._redrawn(station._site(order, station.recall(order)), order)
        site.method = self.method  # for tests that call its hooks
        return site

    def memory(self, name):
        order = Order("fit", self.round + 1, name, self.server.params)
        return self.station().recall(order)

    def predicted(self, name):
        """Return what the server's network says of a site's cases, ``(case, class, *space)``."""
        images = self.federation.train.images[self.federation.sites[name]]
        return self.station().predictor.probabilities(images, self.server.params) > 0.5


def unequal(federation=None):
    """Return the tiny federation with sites of four, three and two cases."""
    federation = tiny_federation() if federation is None else federation
    names = federation.names()
    sites = {n: federation.sites[n][: 4 - k] for k, n in enumerate(names)}
    return replace(federation, sites=sites)


def with_noisy(federation, *names):
    """Return the federation with the masks of these sites turned inside out."""
    masks = federation.train.masks.copy()
    for name in names:
        masks[federation.sites[name]] = 1 - masks[federation.sites[name]]
    return federation.with_masks(masks)


def played(folder, name, options=None, federation=None, rounds=2, **train):
    """Return the parameters after some rounds."""
    label = name.rpartition(":")[2]
    steps = Steps(folder / f"{label}-{rounds}", name, options, federation, rounds=rounds, **train)
    steps.play(rounds)
    return steps.values


class GatheredFedAvg(Method):
    """FedAvg that sums from one buffer, as methods with weights of their own do."""

    def plan(self, server, round):
        return Plan(gather=True)


GATHERED = f"{__file__}:GatheredFedAvg"


SIDES = ((40, 64), (96, 80), (56, 48), (72, 72), (44, 48), (90, 96), (64, 64), (80, 60))


def discs_of_sizes(scale=1.0, dtype=np.uint8, count=8):
    """Return two sites of discs in images of unlike sizes; the first draws 24 px (at 256) off."""
    images, clean, drawn = [], [], []
    for k in range(2 * count):
        shape = SIDES[k % 8]
        grid = np.indices(shape) - np.array([n / 2 + k % 3 for n in shape]).reshape(2, 1, 1)
        inside = np.hypot(*grid) < 0.22 * min(shape)
        offset = 24.0 * max(shape) / SIDE if k < count else 0.0
        images.append((scale * np.where(inside, 160, 60)[..., None]).astype(dtype))
        clean.append(inside.astype(np.uint8))
        drawn.append(shift_mask(inside, offset).astype(np.uint8))
    names = tuple(f"c{k}" for k in range(2 * count))
    cases = Cases(names, Ragged.of(images), Ragged.of(drawn))
    sites = {"site-1": np.arange(count), "site-2": np.arange(count, 2 * count)}
    test = replace(cases.take(np.arange(1)), ids=("t",))
    return Federation(cases, sites, test, clean_masks=Ragged.of(clean))
