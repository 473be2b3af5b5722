"""FedDM: let two peers judge each site's foreground, and merge updates without conflict.

Paper
    Zhu et al., FedDM: Federated Weakly Supervised Segmentation via Annotation Calibration and
    Gradient De-Conflicting, IEEE TMI 2023. Row "FedDM" of the FedA3I paper.
What changes against FedAvg
    Site, from round 2 on: three networks (the one in training and two frozen peers) each trust the
    share p_t of an image's foreground pixels on which their loss is smallest. Pixels that all three
    trust are kept. Pixels that only one of the own network and the near peer trusts are trained as
    background. Other foreground is ignored; background is always kept. After t rounds
    p_t = 1 - ratio * min(t / stop, 1); where that leaves five pixels or fewer, all are kept.
    Server, peers: the uploaded networks predict random images. For each image the nearest and the
    farthest other site get a vote; the site with the most votes becomes the peer. Server, merge:
    updates are added group by group (a convolution with its BatchNorm) in a tree of pairs, and
    conflicting updates lose their part along each other. All sites count the same.
What leaves the site
    The network's parameters, the number of cases, the mean training loss. Note that sites receive
    the networks of two other sites: three times FedAvg's download.
Departures
    Cross-entropy instead of focal cross-entropy, as in the FedA3I paper. Peers are the uploaded
    networks, as in the paper; the released code overwrites them with the global one. In the last
    pair of the tree the released code projects on a vector that it has already changed; here both
    projections use the original ones. Pixels that peers trust are found once a round, on images as
    they are; augmentation moves them. With train.patch an image is a patch. Running variances stay
    at 1e-6 or above. A site that missed a round keeps its peers; one without trains as in FedAvg.
    FedDM was made for boxes and only removes foreground: it makes too small masks worse.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.core.messages import Floats, Numbers, Params, Plan, Replies, Wire
from feda3i.core.predictor import Predictor, channels_last
from feda3i.core.server import Gathered, Server
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method
from feda3i.methods.deconflict import deconflicted_mean, groups_of
from feda3i.methods.foreseen import foresee, foreseen

SMALLEST_VARIANCE = 1e-6
FEWEST = 5  # masks whose trusted share has no more pixels than this are kept whole
HISTORY = 0.99  # share of the old history that a round keeps
_CHUNK = 8  # random images at a time
Choice = NDArray[np.intp]


class FedDM(Method):
    """Peer-based calibration at the sites, de-conflicted merging at the server."""

    ratio: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """Share of the foreground that is no longer trusted at the end; 0 trusts all masks."""
    stop: Annotated[int, Field(ge=1)] = 50
    """Rounds after which the trusted share stays as it is."""
    probes: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Random images on which the server compares networks."""

    wire: ClassVar[Wire] = Wire(settings=("keep",), networks=("near", "far"))

    def plan(self, server: Server, round: int) -> Plan:
        """Send every site its two peers, once they are known, and the share to trust."""
        peers: dict[str, list[str]] = server.state.get("peers", {})
        networks: dict[str, Params] = server.state.get("networks", {})
        return Plan(
            gather=True,
            settings={"keep": self.trusted_share(round - 1)},
            networks={
                site: {"near": networks[near], "far": networks[far]}
                for site, (near, far) in peers.items()
            },
        )

    def trusted_share(self, done: int) -> float:
        """Return p_t after this many rounds of a run."""
        return 1.0 - self.ratio * min(done / self.stop, 1.0)

    def merge(self, server: Server, replies: Replies, gathered: Gathered) -> Params:
        """Choose the next round's peers among the uploads and return the de-conflicted mean."""
        if self.ratio > 0:
            self._update_peers(server, replies.sites, gathered)
        share = np.full(len(replies), 1 / len(replies))
        server.record(weights=dict(zip(replies.sites, share.tolist(), strict=True)))
        return self._deconflicted(server, gathered, gathered.combine(share))

    def _update_peers(self, server: Server, sites: list[str], gathered: Gathered) -> None:
        """Vote among those who answered; the others keep their peers, in their newest version."""
        peers: dict[str, list[str]] = dict(server.state.get("peers", {}))
        if len(sites) > 1:
            near, far = choose_peers(server, gathered, self.probes)
            for k, site in enumerate(sites):
                peers[site] = [sites[near[k]], sites[far[k]]]
        networks: dict[str, Params] = server.state.get("networks", {})
        row = {site: k for k, site in enumerate(sites)}
        wanted = sorted({peer for pair in peers.values() for peer in pair})
        server.state["peers"] = peers
        server.state["networks"] = {
            name: gathered.params(row[name]) if name in row else networks[name] for name in wanted
        }
        server.record(peers=peers)

    def _deconflicted(self, server: Server, gathered: Gathered, mean: Params) -> Params:
        old = server.params.values
        history: NDArray[np.float32] | None = server.state.get("history")
        if history is None:
            server.state["history"] = mean.values - old
            return mean
        values, new_history = np.empty_like(old), np.empty_like(old)
        for start, stop in groups_of(server.layout):
            base: Floats = old[start:stop].astype(np.float64)
            before: Floats = history[start:stop].astype(np.float64)
            update = deconflicted_mean(gathered.rows[:, start:stop] - base, before)
            values[start:stop] = base + update
            new_history[start:stop] = HISTORY * before + (1 - HISTORY) * update
        server.state["history"] = new_history
        for entry in server.layout.floats:
            if entry.name.endswith("running_var"):
                part = values[entry.start : entry.stop]
                np.maximum(part, SMALLEST_VARIANCE, out=part)
        return Params(values, mean.counts)

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when peers judge masks and merging heeds the history: from the second round on."""
        peers = {"calibration by peers": 2} if self.ratio > 0 else {}
        return {**peers, "merging without conflict": 2}

    def fit(self, site: Site) -> Numbers:
        """Train on calibrated masks, or on the given ones without peers or doubt."""
        keep = float(site.settings["keep"])
        if keep >= 1 or not site.networks:
            return super().fit(site)
        of_peers = []
        for peer in ("near", "far"):
            site.load(site.networks[peer])
            of_peers.append(foresee(site, lambda batch, z: trusted(z, batch.masks, keep)))
        site.load(site.received)

        def step(batch: Batch) -> Tensor:
            logits: Tensor = site.network(batch.images)
            own = trusted(logits.detach(), batch.masks, keep)
            near, far = (batch.follow(foreseen(one, batch)) for one in of_peers)
            return self.partial_loss(logits, *calibrate_masks(batch.masks, own, near, far))

        return site.train(step)

    def partial_loss(self, logits: Tensor, targets: Tensor, kept: Tensor) -> Tensor:
        """Return the loss over the kept pixels; 0 where a batch keeps none."""
        pixels = losses.pixel_cross_entropy(logits, targets)
        loss = (pixels * kept).sum() / kept.sum().clamp(min=1)
        if self.loss == "dc":
            # Sure background in prediction and mask adds nothing to the sums of soft Dice.
            loss = 0.5 * loss + 0.5 * losses.soft_dice(logits.masked_fill(~kept, -1e4), targets)
        return loss


def trusted(logits: Tensor, masks: Tensor, keep: float) -> Tensor:
    """Return which foreground pixels a network trusts: the share ``keep`` with the smallest losses.

    Each class of each case is judged alone, and kept whole if the share has five pixels at most.
    """
    foreground = masks > 0.5
    chosen = foreground.clone()
    for case in range(logits.shape[0]):
        for k in range(logits.shape[1]):
            inside = logits[case, k][foreground[case, k]]
            count = int(keep * len(inside) + 1e-9)  # 0.88 * 25 must be 22, not 21
            if FEWEST < count < len(inside):
                # The loss falls as the logit rises, so the smallest losses are the largest logits.
                limit = inside.kthvalue(len(inside) - count + 1).values
                chosen[case, k] &= logits[case, k] >= limit
    return chosen


def calibrate_masks(masks: Tensor, own: Tensor, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
    """Return corrected targets and which pixels count, from three opinions on the foreground."""
    foreground = masks > 0.5
    clean = own & near & far
    doubted = foreground & (own != near)
    return clean.to(masks.dtype), ~foreground | clean | doubted


def choose_peers(server: Server, gathered: Gathered, probes: int) -> tuple[Choice, Choice]:
    """Let random images vote on the nearest and the farthest other network of each site.

    Image i is always the same one in a run. Both results are ``(site,)`` positions.
    """
    predictor = server.predictor(gathered.params(0))
    last = channels_last(server.format.dimensions)
    near, far = np.zeros((2, len(gathered), len(gathered)), np.intp)
    for start in range(0, probes, _CHUNK):
        images = _images(server, range(start, min(start + _CHUNK, probes)))
        maps = _answers(gathered, predictor, images.to(predictor.device, memory_format=last))
        for k in range(len(images)):
            count_votes(near, far, maps[:, k])
    return near.argmax(axis=1), far.argmax(axis=1)


def count_votes(near: Choice, far: Choice, maps: NDArray[np.float32]) -> None:
    """Add one image's votes to counts ``(site, site)``, given what each site's network predicts."""
    from scipy.spatial.distance import pdist, squareform

    # Differences, no inner products: networks are alike, and a difference of large products
    # would lose the digits that tell them apart.
    distances: Floats = squareform(pdist(maps.reshape(len(maps), -1), "sqeuclidean"))
    sites = np.arange(len(maps))
    distances[sites, sites] = np.inf
    near[sites, distances.argmin(axis=1)] += 1
    distances[sites, sites] = -np.inf
    far[sites, distances.argmax(axis=1)] += 1


def _images(server: Server, numbers: range) -> Tensor:
    shape = (server.format.channels, *server.format.shape)
    images = [server.rng("probe", i).random(shape, dtype=np.float32) for i in numbers]
    return torch.from_numpy(255 * np.stack(images)).to(torch.get_default_dtype())


def _answers(gathered: Gathered, predictor: Predictor, images: Tensor) -> NDArray[np.float32]:
    """Return the probabilities ``(site, image, class, *space)`` of all networks."""
    networks = (predictor.load(gathered.params(k)) for k in range(len(gathered)))
    return np.stack([torch.sigmoid(one.logits(images)).cpu().numpy() for one in networks])


METHOD = FedDM
