"""ELR: pull predictions towards earlier ones, made before the network memorised the noise.

Paper
    Liu et al., Early-Learning Regularization Prevents Memorization of Noisy Labels, NeurIPS 2020.
What changes against FedAvg
    Each site remembers a running mean t of its predictions, per case, class and pixel:
    t <- beta t + (1 - beta) p, from zero, and then the loss gains lam * mean log(1 - (t0 p0 + t1
    p1)). The memory takes four bytes per pixel and class of the site's disk.
What leaves the site
    What FedAvg sends: the network's parameters, the number of cases, the mean training loss.
Departures
    beta = 0.99 and lam = 1 are the values of the FedA3I comparison; the authors released (0.7, 3),
    (0.9, 7) and (0.9, 1). t0 follows from t1 and the visits k, as t0 + t1 = 1 - beta^k. The memory
    outlives the round: a fresh one would leave ELR nearly inert. The version with two networks and
    mixup (ELR+) is not used. The memory belongs to pixels: train.augment, which moves them, is
    refused. With train.patch every pixel counts its own visits.
"""

import math
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from feda3i import losses
from feda3i.core.patches import shared_boxes
from feda3i.core.ragged import Ragged
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method

LIMIT = 1e-4  # predictions are held this far off 0 and 1


class ELR(Method):
    """FedAvg with a memory of early predictions at the sites."""

    beta: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the old target that is kept at each visit of a case."""
    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Weight of the regulariser (lambda in the paper); 0 is FedAvg."""

    follows_augmentation: ClassVar[bool] = False  # predictions of changed cases have another place

    def step(self, site: Site, batch: Batch) -> Tensor:
        """Return the loss with the regulariser; the memory of these cases is updated first."""
        logits = site.network(batch.images)
        loss = self.criterion(logits, batch.masks)
        if self.lam == 0:
            return loss
        t1, total = self.remember(site, batch, logits)
        return loss + self.lam * losses.early_learning(logits, t1, total, LIMIT)

    def remember(self, site: Site, batch: Batch, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Add a visit to the memory; return t1 and t0 + t1 of the batch, 0 outside of the cases."""
        t1, visits = _memory_of(site)
        seen = torch.sigmoid(logits.detach()).clamp(LIMIT, 1 - LIMIT)
        before = batch.cut([t1[k] for k in batch.positions])
        after = self.beta * before + (1 - self.beta) * seen
        size = tuple(logits.shape[2:])
        corners = batch.corners or [(0,) * len(size)] * len(batch)
        for k, corner, values in zip(batch.positions, corners, after.cpu().numpy(), strict=True):
            of_case, of_patch = shared_boxes(t1[k].shape[1:], corner, size)
            t1[k][:, *of_case] = values[:, *of_patch]
            visits[k][:, *of_case] += 1
        often = batch.cut([visits[k] for k in batch.positions]).cpu().numpy().astype(np.float64)
        total = torch.from_numpy(1.0 - self.beta**often).to(logits)
        return torch.where(total > 0, after, 0), total


def _memory_of(site: Site) -> tuple[Ragged, Ragged]:
    """Return t1 ``(case, class, *space)`` and visits: of each case, or of each pixel of patches."""
    shapes = site.shapes
    often = shapes if site.is_patched else [(1,) * len(site.shape)] * len(site)
    if "t1" not in site.memory:
        # float32: in half precision increments of 0.01 (p - t) are lost once p is near t.
        pixels = sum(math.prod(shape) for shape in shapes)
        site.memory["t1"] = np.zeros(site.classes * pixels, np.float32)
        site.memory["visits"] = np.zeros(sum(math.prod(one) for one in often), np.int64)
    t1 = Ragged(site.memory["t1"], np.array([(site.classes, *shape) for shape in shapes]))
    return t1, Ragged(site.memory["visits"], np.array([(1, *shape) for shape in often]))


METHOD = ELR
