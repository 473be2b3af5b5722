"""FedSelect: learn which images and which sites to train on.

Paper
    FedSelect (authors' code 42ec7df), the strongest of five methods in a benchmark of real
    annotation noise (FedSegNoiseBench, 2026).
What changes against FedAvg
    A small network V turns the loss of an image into a weight between 0 and 1; the server keeps
    it. In every round a share of the sites trains, drawn by the mean weight g of their images, and
    each epoch of a site draws a share of its images by their weights. Images whose loss falls most
    in a round become the site's proxy set. Between two rounds the site with the largest g moves V
    so that a step on weighted images lowers the loss on its proxy set. In the first tenth of the
    rounds sites and images are drawn evenly. Fewer sites train in a round: equal rounds are not
    equal updates; ratio = 1 and rho = 1 train as much as FedAvg.
What leaves the site
    The network's parameters, the number of cases, the mean training loss; the mean, smallest,
    median and largest weight of its images. One site a round also gets V (301 numbers) with its
    moments (602) and returns them. Losses, margins and proxy set of the images stay.
Departures
    Training is that of all methods here: the recipe's optimiser, no early stop. Replies are
    averaged by cases (the authors' code: all alike; the benchmark: by g). The gradient of V is
    exact up to a central difference along one direction instead of a second backward pass. V's
    parameters are not pulled to 0, which would outweigh the gradient of a mean over pixels. The
    batch of the virtual step is drawn; in the authors' code it is always the same. Up to four sites
    all train; an epoch has two images at least (BatchNorm needs them). An image whose loss is not
    finite is left out. A whole site that draws too large is only seen by g.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from feda3i.core.cases import Index
from feda3i.core.messages import Floats, Numbers, Plan, Replies, Wire
from feda3i.core.server import Server
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method

HIDDEN = 100  # hidden units of V: Linear 1 -> 100, ReLU, Linear 100 -> 1, sigmoid
SIZE = 3 * HIDDEN + 1
FEW_SITES = 4  # up to this many sites all train in every round
PROXY_BATCH = 8
MOMENTS = 2 * SIZE
SPREAD = ("v_min", "v_median", "v_max")


class FedSelect(Method):
    """Sites and images drawn by learnt weights; V lies in ``server.state["phi"]``."""

    ratio: Annotated[float, Field(gt=0, le=1)] = 0.4
    """Share of the sites that train in a round."""
    rho: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Share of a site's images that each epoch draws."""
    replace: bool = True
    """Whether an epoch may draw an image more than once."""
    warm_up: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the rounds, at least one, in which sites and images are drawn evenly."""
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the last margins in the new ones (0.9 in the benchmark)."""
    proxy: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of a site's images in its proxy set, at least one."""
    virtual_lr: Annotated[float, Field(gt=0, le=10)] = 0.01
    """Length of the virtual step."""
    lr: Annotated[float, Field(gt=0, le=1)] = 1e-3
    """Learning rate of V (Adam)."""

    wire: ClassVar[Wire] = Wire(
        fit=("g", *SPREAD),
        survey=("phi", "moments"),
        settings=("phi", "moments", "steps", "even"),
        lists={"phi": SIZE, "moments": MOMENTS},
    )

    def start(self, server: Server) -> None:
        """Begin with an untrained V and the same weight for every site."""
        server.state.update(phi=first_phi(server.rng("fedselect")), moments=np.zeros(MOMENTS))
        server.state.update(steps=0, g={}, proxies=[])

    def is_even(self, server: Server, round: int) -> bool:
        """Return whether sites and images are drawn evenly in a round."""
        return round <= max(1, int(self.warm_up * server.rounds))

    def plan(self, server: Server, round: int) -> Plan:
        """Draw the sites of the round; let the one with the largest g move V before."""
        state = server.state
        best = max(state["proxies"], key=lambda site: state["g"][site], default=None)
        survey = () if best is None else (best,)
        moments = {"moments": state["moments"].tolist(), "steps": state["steps"]}
        return Plan(
            sites=self.drawn(server, round),
            survey=survey,
            settings={"phi": state["phi"].tolist(), "even": self.is_even(server, round)},
            site_settings=dict.fromkeys(survey, moments),
        )

    def drawn(self, server: Server, round: int) -> tuple[str, ...] | None:
        """Return the sites that train, drawn one after another by g once the start is over."""
        sites = sorted(server.sites)
        count = len(sites) if len(sites) <= FEW_SITES else max(1, int(self.ratio * len(sites)))
        if count == len(sites):
            return None
        known = {} if self.is_even(server, round) else server.state["g"]
        g = np.array([known.get(site, 1.0) for site in sites])
        draw = server.rng("fedselect", "sites", round)
        chosen = draw.choice(len(sites), count, replace=False, p=g / g.sum())
        return tuple(sites[k] for k in sorted(chosen))

    def digest(self, server: Server, replies: Replies) -> None:
        """Keep the V that a survey moved, or the g of the sites that trained."""
        state = server.state
        if replies.task == "survey":
            for reply in replies:
                state["phi"] = np.array(reply.numbers["phi"])
                state["moments"] = np.array(reply.numbers["moments"])
                state["steps"] += 1
                server.record(moved_by=reply.site)
            return
        state["g"].update(zip(replies.sites, replies.number("g").tolist(), strict=True))
        state["proxies"] = sorted({*state["proxies"], *replies.sites})
        spread = np.stack([replies.number(name) for name in ("g", *SPREAD)], axis=1)
        server.record(image_weights=dict(zip(replies.sites, spread.tolist(), strict=True)))

    def fit(self, site: Site) -> Numbers:
        """Weigh the images, train on drawn ones, and see whose loss has fallen most."""
        before = self.losses(site)
        is_even = bool(site.settings["even"])
        v = np.ones(len(site)) if is_even else value(np.array(site.settings["phi"]), before)
        v = np.where(np.isfinite(before), v, 0.0)
        numbers = site.train(
            lambda batch: self.step(site, batch), order=lambda epoch: self.order(site, v, epoch)
        )
        self.remember(site, before, self.losses(site))
        spread = dict(zip(SPREAD, np.quantile(v, (0, 0.5, 1)).tolist(), strict=True))
        return {**numbers, "g": float(v.mean()), **spread}

    def order(self, site: Site, v: Floats, epoch: int) -> Index:
        """Return the images of an epoch, drawn by their weights."""
        usual, count = site.order(epoch), max(min(2, len(site)), int(self.rho * len(site)))
        if not v.sum() > 0 or (count == len(site) and not self.replace):
            return usual
        draw = site.rng("fedselect", epoch)
        if self.replace:
            return np.asarray(draw.choice(len(site), count, p=v / v.sum()))
        count = min(count, int(np.count_nonzero(v)))
        chosen = draw.choice(len(site), count, replace=False, p=v / v.sum())
        return usual[np.isin(usual, chosen)]

    def remember(self, site: Site, before: Floats, after: Floats) -> None:
        """Keep losses and margins; those whose margin is largest are the proxy set."""
        last = site.memory.get("losses", before)
        old = site.memory.get("margins", np.zeros(len(site)))
        margins = scaled(self.beta * old + (1 - self.beta) * scaled(last - after))
        count = max(1, int(self.proxy * len(site)))
        largest = np.argsort(-margins, kind="stable")[:count]
        site.memory.update(losses=after, margins=margins, proxy=np.sort(largest))

    def losses(self, site: Site) -> Floats:
        """Return the loss of every image, without training."""
        with torch.inference_mode():
            rows = [self.by_image(logits, batch.masks) for batch, logits in site.predict()]
            return torch.cat(rows).double().cpu().numpy()

    def by_image(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the criterion of each image of a batch alone."""
        alone = [slice(k, k + 1) for k in range(len(logits))]
        return torch.stack([self.criterion(logits[k], targets[k]) for k in alone])

    def survey(self, site: Site) -> Numbers:
        """Move V: a virtual step on weighted images should lower the loss on the proxy set."""
        phi, moments = (np.array(site.settings[name]) for name in ("phi", "moments"))
        step, proxy = int(site.settings["steps"]), site.memory["proxy"]
        for number in range(0, len(proxy) if len(site) > 1 else 0, PROXY_BATCH):
            size = min(site.training.batch, len(site))
            drawn = site.rng("fedselect", "virtual", number).choice(len(site), size, replace=False)
            batch = site.batch(np.sort(drawn))
            slopes, losses = self.virtual(site, phi, batch, proxy[number : number + PROXY_BATCH])
            gradient = slopes @ value_gradient(phi, losses)
            if np.all(np.isfinite(gradient)):
                step += 1
                phi, moments = adam(phi, moments, gradient, self.lr, step)
        site.load(site.received)
        return {"phi": phi.tolist(), "moments": moments.tolist()}

    def virtual(self, site: Site, phi: Floats, batch: Batch, proxy: Index) -> tuple[Floats, Floats]:
        """Return the slopes of the proxy loss by each image's weight, and the images' losses."""
        network = site.network
        params = [p for p in network.parameters() if p.requires_grad]

        def at(shift: float, direction: list[Tensor] | None) -> Tensor:
            """Return the losses of the batch with the network moved along a direction."""
            site.load(site.received)
            _move(params, direction, shift)
            network.train()
            return self.by_image(network(batch.images), batch.masks)

        losses = at(0.0, None)
        v = torch.from_numpy(value(phi, _numbers(losses))).to(losses)
        inner = list(torch.autograd.grad((v * losses).mean(), params))
        site.load(site.received)
        _move(params, inner, -self.virtual_lr)
        network.eval()
        seen = site.batch(proxy)
        outer = self.by_image(network(seen.images), seen.masks).mean()
        direction = list(torch.autograd.grad(outer, params))
        norm = float(torch.stack([g.double().square().sum() for g in direction]).sum().sqrt())
        with torch.no_grad():
            slopes = weight_slopes(lambda s: _numbers(at(s, direction)), norm, self.virtual_lr)
        return slopes, _numbers(losses)


def weight_slopes(losses: Callable[[float], Floats], norm: float, lr: float) -> Floats:
    """Return dL/dv of each image: -lr / |B| times the slope of its loss along the direction d.

    ``losses(s)`` are the images' losses at w + s d; ``norm`` is the length of d.
    """
    if not norm > 0:
        return np.zeros(len(losses(0.0)))
    eps = 0.01 / norm
    ahead, behind = losses(eps), losses(-eps)
    return np.asarray(-lr / len(ahead) * (ahead - behind) / (2 * eps))


def scaled(values: Floats) -> Floats:
    """Return values on the scale of 0 (smallest) to 1 (largest); all 0 if they are equal."""
    known = np.where(np.isfinite(values), values, np.nanmin(values, initial=0.0))
    low, high = known.min(), known.max()
    return (known - low) / (high - low) if high > low else np.zeros(len(known))


def first_phi(draw: np.random.Generator) -> Floats:
    """Return V's first parameters: uniform within one over the root of each layer's inputs."""
    inner, outer = draw.uniform(-1, 1, 2 * HIDDEN), draw.uniform(-1, 1, HIDDEN + 1)
    return np.concatenate([inner, outer / np.sqrt(HIDDEN)])


def _hidden(phi: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Return the hidden units ``(image, unit)`` and V's answers."""
    slope, offset, out = phi[:-1].reshape(3, HIDDEN)
    hidden = np.maximum(np.outer(losses, slope) + offset, 0)
    return hidden, 1 / (1 + np.exp(-(hidden @ out + phi[-1])))


def value(phi: Floats, losses: Floats) -> Floats:
    """Return V's weight of images with these losses."""
    return _hidden(phi, losses)[1]


def value_gradient(phi: Floats, losses: Floats) -> Floats:
    """Return the gradient of each weight by V's parameters, ``(image, parameter)``."""
    hidden, v = _hidden(phi, losses)
    by_offset = (hidden > 0) * phi[2 * HIDDEN : 3 * HIDDEN]
    parts = [losses[:, None] * by_offset, by_offset, hidden, np.ones((len(losses), 1))]
    return (v * (1 - v))[:, None] * np.concatenate(parts, axis=1)


def adam(
    phi: Floats, moments: Floats, gradient: Floats, lr: float, step: int
) -> tuple[Floats, Floats]:
    """Return parameters and moments after a step of Adam, counted from 1."""
    first, second = moments.reshape(2, -1)
    first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
    mean, square = first / (1 - 0.9**step), second / (1 - 0.999**step)
    return phi - lr * mean / (np.sqrt(square) + 1e-8), np.concatenate([first, second])


def _move(params: list[nn.Parameter], direction: list[Tensor] | None, by: float) -> None:
    with torch.no_grad():
        for parameter, along in zip(params, direction or [], strict=direction is not None):
            parameter.add_(along, alpha=by)


def _numbers(losses: Tensor) -> Floats:
    return np.asarray(losses.detach().double().cpu())


METHOD = FedSelect
