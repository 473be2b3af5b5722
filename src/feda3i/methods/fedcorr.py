"""FedCorr: find noisy sites and correct their masks in three phases.

Paper
    Xu et al., FedCorr: Multi-Stage Federated Learning for Label Noise Correction, CVPR 2022. Row
    "FedCorr" of the FedA3I paper, with 2, 8 and 90 rounds.
What changes against FedAvg
    Three phases ("stages" in the paper), all of which train on mixed pairs of images (mixup).
    Phase 1, t1 rounds: after training, each site measures the losses of its own network. The server
    divides sites by a mixture of two Gaussians on their mean losses. At a noisy site, the share of
    pixels in the high component of a mixture on its pixel losses is its noise level mu_i. Its pi *
    mu_i highest-loss pixels take the new global network's prediction where that is surer than
    theta, and its next training is held back by beta * mu_i * ||w - w_g||.
    Phase 2, t2 rounds: only sites with mu_i <= kappa train; without any, the tenth of the sites
    with the smallest mu_i. Then all pixels of noisy sites of which the global network is surer than
    theta take its prediction.
    Phase 3, the remaining rounds: all sites train on the corrected masks, which stay at the site.
What leaves the site
    The network's parameters, the number of cases, the mean training loss (in phase 1 with the
    proximal term); in phase 1 the mean loss of the own network and the noise level (both 0 later).
    Phase, noise level and the word to relabel come down.
Departures
    The loss replaces the local intrinsic dimension, as in the FedA3I paper. An instance is a pixel
    of a class; for two classes theta = 0.5 replaces a noisy site's whole mask after phase 2. The
    losses are cross-entropies of logits (the released code applies softmax twice). Phase 1 is made
    of ordinary rounds with all sites (there: one site after the other). The proximal term is the
    norm, as in the released code; the paper squares it. Corrections are made when the next order
    comes, by the network in it; noisy sites that do not train in phase 2 are surveyed for it. A
    mixture looks at 100,000 pixels at most. A site that missed phase 1 joins in phase 3.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from feda3i import losses
from feda3i.core.messages import Numbers, Plan, Replies, Wire
from feda3i.core.server import Server
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method
from feda3i.methods.corrected import (
    current_masks,
    highest,
    pack_masks,
    relabel,
    remember_masks,
    unpack_cases,
)
from feda3i.methods.fedprox import squared_distance
from feda3i.methods.two_groups import high_group, min_max

Share = Annotated[float, Field(ge=0, le=1)]


class FedCorr(Method):
    """Detection and first corrections, training of clean sites, training on corrected masks."""

    t1: Annotated[int, Field(ge=0)] = 2
    """Rounds of phase 1."""
    t2: Annotated[int, Field(ge=0)] = 8
    """Rounds of phase 2; the rest of the run is phase 3."""
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    """Strength of the proximal term of phase 1."""
    pi: Share = 0.5
    """Share of the instances taken for noisy that phase 1 may correct."""
    theta: Annotated[float, Field(ge=0.5, le=1)] = 0.5
    """Confidence from which on a prediction replaces a mask; 1 replaces nothing."""
    kappa: Share = 0.1
    """Largest noise level of a site that trains in phase 2."""

    wire: ClassVar[Wire] = Wire(
        fit=("mean_loss", "noise_level"), settings=("phase", "noise_level", "relabel")
    )

    def phase(self, round: int) -> int:
        """Return the phase of a round: 1, 2 or 3."""
        return 1 if round <= self.t1 else 2 if round <= self.t1 + self.t2 else 3

    def start(self, server: Server) -> None:
        """Nobody is known to be noisy."""
        server.state.update(sums={}, estimates={}, levels={}, noisy=[], pending={})

    def plan(self, server: Server, round: int) -> Plan:
        """Say who trains; who does not, but has corrections to make, is surveyed."""
        levels, pending = server.state["levels"], server.state["pending"]
        phase = self.phase(round)
        trains = self.trusted_sites(server) if phase == 2 else tuple(sorted(server.sites))
        waiting = [site for site in sorted(pending) if site in server.sites]
        server.record(phase=phase, trains=len(trains))
        return Plan(
            sites=trains,
            survey=tuple(site for site in waiting if site not in trains),
            settings={"phase": phase, "noise_level": 0.0, "relabel": "nothing"},
            site_settings={
                s: {"noise_level": levels.get(s, 0.0), "relabel": pending.get(s, "nothing")}
                for s in server.sites
            },
        )

    def trusted_sites(self, server: Server) -> tuple[str, ...]:
        """Return who trains in phase 2."""
        levels = {s: mu for s, mu in server.state["levels"].items() if s in server.sites}
        if not levels:
            return tuple(sorted(server.sites))
        clean = tuple(sorted(site for site, mu in levels.items() if mu <= self.kappa))
        ranked = sorted(levels, key=lambda site: (levels[site], site))
        return clean or tuple(sorted(ranked[: math.ceil(len(ranked) / 10)]))

    def digest(self, server: Server, replies: Replies) -> None:
        """Note who has made corrections; in phase 1 decide who is noisy."""
        state, pending = server.state, server.state["pending"]
        for site in replies.sites:
            pending.pop(site, None)
        if replies.task == "survey":
            return
        if self.phase(replies.round) == 1:
            self._detect(server, replies)
            state["pending"] = dict.fromkeys(state["noisy"], "highest")
            server.record(noisy=state["noisy"], noise_level=state["levels"])
        elif replies.round == self.t1 + self.t2:
            state["pending"] = dict.fromkeys(state["noisy"], "all")

    def _detect(self, server: Server, replies: Replies) -> None:
        state = server.state
        for reply in replies:
            total, rounds = state["sums"].get(reply.site, (0.0, 0))
            state["sums"][reply.site] = [total + reply.numbers["mean_loss"], rounds + 1]
            state["estimates"][reply.site] = reply.numbers["noise_level"]
        sites = sorted(state["sums"])
        # Divided by the rounds a site took part in: the same as the sums while nobody is missing.
        means = np.array([total / rounds for total, rounds in (state["sums"][s] for s in sites)])
        seed = int(server.rng("fedcorr", replies.round).integers(2**31))
        is_noisy = high_group(min_max(means), seed)
        state["noisy"] = noisy = [site for site, n in zip(sites, is_noisy, strict=True) if n]
        state["levels"] = {s: state["estimates"][s] if s in noisy else 0.0 for s in sites}

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when phases 2 and 3 begin."""
        second, third = self.t1 + 1, self.t1 + self.t2 + 1
        phase_2 = {"phase 2 (clean sites alone)": second} if self.t2 else {}
        return {**phase_2, "phase 3 (training on corrected masks)": third}

    def fit(self, site: Site) -> Numbers:
        """Make corrections, train, and in phase 1 look at the result."""
        self.survey(site)
        numbers = self._train(site)
        judged = self._judge(site) if site.settings["phase"] == 1 else (0.0, 0.0)
        return {**numbers, "mean_loss": judged[0], "noise_level": judged[1]}

    def survey(self, site: Site) -> Numbers:
        """Put corrected masks into memory, by the received network; nothing leaves the site."""
        what = site.settings["relabel"]
        bits = site.memory.pop("highest", None)
        if what == "nothing" or (what == "highest" and (bits is None or not bits.any())):
            return {}
        shapes = [(site.classes, *s) for s in site.shapes]
        current = []
        for batch, logits in site.predict():
            chosen = None
            if what == "highest" and bits is not None:
                chosen = batch.cut(unpack_cases(bits, batch.positions, shapes))
            before = current_masks(site, batch) > 0.5
            current.append(relabel(before, logits, chosen, self.theta))
        remember_masks(site, current)
        return {}

    def _train(self, site: Site) -> Numbers:
        draw = site.rng("mixup")
        pull = self.beta * site.settings["noise_level"] if site.settings["phase"] == 1 else 0.0
        weights = [w for w in site.network.parameters() if w.requires_grad]
        anchor = [w.detach().clone() for w in weights] if pull > 0 else []

        def step(batch: Batch) -> Tensor:
            lam, masks = float(draw.beta(1.0, 1.0)), current_masks(site, batch)
            partner = torch.from_numpy(draw.permutation(len(batch))).to(batch.images.device)
            loss = self.mixed_loss(site.network, batch.images, masks, lam, partner)
            if pull > 0:
                square = squared_distance(weights, anchor)
                # The small number gives the root a gradient of 0 at the start, where it has none.
                loss = loss + pull * torch.sqrt(square + 1e-12)
            return loss

        return site.train(step)

    def mixed_loss(
        self, network: nn.Module, images: Tensor, targets: Tensor, lam: float, partner: Tensor
    ) -> Tensor:
        """Return the loss on images mixed with their partners, against both masks."""
        logits = network(lam * images + (1 - lam) * images[partner])
        first, second = self.criterion(logits, targets), self.criterion(logits, targets[partner])
        return lam * first + (1 - lam) * second

    def _judge(self, site: Site) -> tuple[float, float]:
        """Return mean loss and noise level of the trained network; remember the highest losses."""
        looks = site.predict()
        found = (losses.pixel_cross_entropy(z, current_masks(site, batch)) for batch, z in looks)
        parts = [pixels.cpu().numpy() for pixels in found]
        # Cases of one size are stacked; of several, each comes alone and is laid out flat.
        is_one_size = len({part.shape[1:] for part in parts}) == 1
        instances = np.concatenate(parts if is_one_size else [part.reshape(-1) for part in parts])
        seed = int(site.rng("fedcorr").integers(2**31))
        noisy = int(high_group(instances.reshape(-1), seed).sum())
        chosen = highest(instances, int(self.pi * noisy + 1e-9))
        ends = np.cumsum([part.size for part in parts])[:-1]
        site.memory["highest"] = pack_masks(chosen if is_one_size else np.split(chosen, ends))
        return float(instances.mean(dtype=np.float64)), noisy / instances.size


METHOD = FedCorr
