"""ADELE: correct the masks by the network's own predictions once early learning is over.

Paper
    Liu et al., Adaptive Early-Learning Correction for Segmentation from Noisy Annotations, CVPR
    2022.
What changes against FedAvg
    Loss, from the first round: every batch passes the network at three scales (3.7 x FedAvg's
    cost); the loss is the mean of the three cross-entropies plus lam times the Jensen-Shannon
    divergence of the three predictions, in images where some pixel is at least rho certain.
    Switch: the sites count the pixels predicted by the received network, annotated and both. The
    server fits a curve to the IoU of all training cases; when its slope has lost the share r of its
    first value, correction starts for good, class by class.
    Correction: each round a pixel whose mean probability over the scales exceeds tau takes the
    predicted class, always starting from the given masks. Corrected masks stay at the site.
What leaves the site
    What FedAvg sends, and three whole numbers per class and round: pixels predicted, annotated, and
    both. One flag per class comes down.
Departures
    The IoU is that of all sites' cases together and tau = 0.8, as in the FedA3I comparison (the
    authors: 0.7 for medical images). Counts travel with the reply to the training, so a switch acts
    one round later. The curve begins with the initial model: its steep part lies within one round.
    The clock is the round; the authors correct every epoch (VOC) or every tenth (medical), and
    their medical code corrects what was corrected before. As in their code the certainty is taken
    per image, a class that a mask lacks stays absent, a mask is left alone where its foreground
    would fall below half and its background exceed 95 %, and a flat head of the curve is cut off
    (trim), here only if four points remain. Classes are corrected one by one, so that a pixel may
    belong to two. No scale makes a side smaller than 32 pixels.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from feda3i import losses
from feda3i.core.messages import Floats, Numbers, Plan, Replies, Wire
from feda3i.core.server import Server
from feda3i.core.site import Batch, Site
from feda3i.methods.base import Method
from feda3i.methods.corrected import current_masks, remember_masks

FEWEST = 4  # points of a curve of three parameters
STEEP = 0.1  # an increase of the IoU that ends a flat head
SMALLEST = 32
"""Sides below this are not made smaller: a U-Net cannot train on a single smaller image."""


class ADELE(Method):
    """Three scales, a learning curve over all sites, and masks corrected after its bend."""

    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Weight of the agreement between scales (lambda in the paper)."""
    rho: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Certainty from which on the agreement counts."""
    r: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of its slope that the curve must have lost before masks are corrected."""
    tau: Annotated[float, Field(ge=0.5, le=1)] = 0.8
    """A pixel is corrected where a class is more probable than this; 1 corrects nothing."""
    scales: Annotated[
        tuple[Annotated[float, Field(gt=0, le=4)], ...], Field(min_length=1, max_length=8)
    ] = (0.7, 1.0, 1.5)
    """Sizes at which every batch passes the network, as shares of the images' own."""
    trim: bool = True
    """Cut a flat head off the curve before the fit."""
    points: Annotated[int, Field(ge=2)] = FEWEST
    """Fewest points of the curve that the switch decides on."""

    wire: ClassVar[Wire] = Wire(
        fit=("predicted", "annotated", "both"),
        settings=("correct",),
        per_class=("predicted", "annotated", "both"),
    )

    def start(self, server: Server) -> None:
        """Begin with an empty curve and no switch for each class."""
        server.state["iou"] = [[] for _ in range(server.format.classes)]
        server.state["first"] = [None] * server.format.classes

    def plan(self, server: Server, round: int) -> Plan:
        """Say for each class whether its masks are corrected in this round."""
        due = [first is not None and round >= first for first in server.state["first"]]
        return Plan(settings={"correct": due})

    def digest(self, server: Server, replies: Replies) -> None:
        """Add a point to each class's curve and switch on where it has bent."""
        counts = {name: replies.number(name).sum(axis=0) for name in self.wire.fit}
        union = counts["predicted"] + counts["annotated"] - counts["both"]
        iou = counts["both"] / (union + 1e-10)
        state = server.state
        for k, value in enumerate(iou.tolist()):
            state["iou"][k].append(value)
            if state["first"][k] is None and has_bent(
                state["iou"][k], self.r, server.rounds, trim=self.trim, points=self.points
            ):
                state["first"][k] = replies.round + 1
        server.record(train_iou=iou.tolist(), correct_from=list(state["first"]))

    def phases(self, rounds: int, state: Mapping[str, Any]) -> dict[str, int | None]:
        """Return when masks are corrected: once a curve has bent, after the fewest points."""
        if not state:
            return {"correction of masks": self.points + 1}
        first = [round for round in state["first"] if round is not None]
        return {"correction of masks": min(first, default=None)}

    def fit(self, site: Site) -> Numbers:
        """Look at the cases with the received network, correct masks if asked, then train."""
        numbers = self.look(site, [bool(due) for due in site.settings["correct"]])
        return {**super().fit(site), **numbers}

    def look(self, site: Site, due: list[bool]) -> Numbers:
        """Return the counts of the IoU; put the corrected masks of the due classes into memory."""
        counts = np.zeros((3, site.classes), dtype=np.int64)
        chosen = torch.tensor(due, device=site.device).reshape(-1, *[1] * len(site.shape))
        current = []
        for batch, logits in site.predict():
            kept = current_masks(site, batch)
            with torch.inference_mode():
                given = batch.masks > 0
                counts += _counts(logits > 0, given)
                if any(due):
                    after = correct(given, self.probabilities(site, batch, logits), self.tau)
                    current.append(torch.where(chosen, after, kept > 0))
        if current:
            remember_masks(site, current)
        return {name: row.tolist() for name, row in zip(self.wire.fit, counts, strict=True)}

    def step(self, site: Site, batch: Batch) -> Tensor:
        """Return the mean cross-entropy over the scales and their disagreement."""
        targets = current_masks(site, batch)
        views = [at_scale(site.network, batch.images, scale) for scale in self.scales]
        total = torch.stack([self.criterion(z, targets) for z in views]).sum()
        if self.lam > 0:
            total = total + self.lam * self.agreement(views)
        return total / len(views)

    def agreement(self, views: list[Tensor]) -> Tensor:
        """Return the mean divergence over all pixels of images where some pixel is certain."""
        divergence, mean = losses.disagreement(views)
        certainty = torch.maximum(mean, 1 - mean).detach()
        certainty = certainty.flatten(1).amax(1).reshape(-1, *[1] * (mean.ndim - 1))
        return (divergence * (certainty >= self.rho)).mean()

    def probabilities(self, site: Site, batch: Batch, logits: Tensor) -> Tensor:
        """Return the mean probability over the scales; ``logits`` are those of scale one."""
        see = partial(at_scale, site.network)
        views = [
            logits if scale == 1 else site.answers(batch, partial(see, scale=scale))
            for scale in self.scales
        ]
        return torch.sigmoid(torch.stack(views)).mean(0)


def correct(masks: Tensor, probabilities: Tensor, tau: float) -> Tensor:
    """Return masks ``(case, class, *space)`` with certain pixels as predicted, without collapse."""
    certain = torch.maximum(probabilities, 1 - probabilities) > tau
    changed = torch.where(certain, probabilities > 0.5, masks)
    had, has = (m.flatten(2).sum(-1, dtype=torch.float64) for m in (masks, changed))
    pixels = masks[0, 0].numel()
    collapsed = (has < 0.5 * had) & (pixels - has > 0.95 * pixels)
    alone = (had == 0) | collapsed
    return torch.where(alone.reshape(*alone.shape, *[1] * (masks.ndim - 2)), masks, changed)


def _counts(predicted: Tensor, annotated: Tensor) -> NDArray[Any]:
    """Return the pixels predicted, annotated and both by class, ``(3, class)``."""
    sets = (predicted, annotated, predicted & annotated)
    return np.stack([s.transpose(0, 1).flatten(1).sum(-1).cpu().numpy() for s in sets])


def at_scale(network: nn.Module, images: Tensor, scale: float) -> Tensor:
    """Return the logits ``(case, class, *space)`` of images seen at a scale, at their own size."""
    shape = tuple(images.shape[2:])
    # Rounded down, though 0.7 * 30 is 20.999...
    size = tuple(max(int(side * scale + 1e-9), min(side, SMALLEST)) for side in shape)
    if size == shape:
        logits: Tensor = network(images)
        return logits
    mode = "trilinear" if len(shape) == 3 else "bilinear"
    resized = functional.interpolate(images, size, mode=mode, align_corners=True)
    return functional.interpolate(network(resized), shape, mode=mode, align_corners=True)


class Curve(NamedTuple):
    """The learning curve f(x) = a (1 - exp(-x^b / c)): steep, then slow once noise is learned."""

    a: float
    b: float
    c: float

    def slope(self, x: Floats) -> Floats:
        """Return f'(x); a small shift keeps it finite at zero, where b < 1 makes it steep."""
        x = x + 1e-6
        power = x**self.b / self.c
        return np.asarray(self.a * self.b * power / x * np.exp(-power))


def fit_curve(values: Sequence[float]) -> Curve | None:
    """Fit a curve with 0 <= a <= 1, 0 <= b <= 1, c > 0; ``None`` if the fit fails.

    The x of m values are spread evenly over [0, m]; late points weigh up to a hundredfold.
    """
    from scipy.optimize import least_squares

    y = np.asarray(values, dtype=np.float64)
    if len(y) < 2 or not np.isfinite(y).all():
        return None
    x = np.linspace(0.0, len(y), len(y))
    error = np.geomspace(1.0, 0.1, len(y))

    def residuals(parameters: Floats) -> Floats:
        a, b, c = parameters
        return np.asarray((-a * np.expm1(-(x**b) / c) - y) / error)

    bounds = ([0.0, 0.0, 1e-12], [1.0, 1.0, np.inf])
    found = least_squares(residuals, (1.0, 1.0, 1.0), bounds=bounds, method="trf")
    if not found.success or not np.isfinite(found.x).all():
        return None
    return Curve(*(float(parameter) for parameter in found.x))


def flat_head(values: Sequence[float], keep: int = FEWEST) -> int:
    """Return how many leading points to cut: those before the first increase of at least 0.1.

    Zero if fewer than ``keep`` points would remain, or slow curves would never switch.
    """
    increases = np.diff(np.asarray(values, dtype=np.float64))
    steep = np.flatnonzero(increases >= STEEP)
    cut = int(steep[0]) if len(steep) else len(increases)
    return cut if len(values) - cut >= keep else 0


def bend(curve: Curve, r: float, rounds: int) -> int | None:
    """Return the step after which the slope has lost more than the share ``r``, if it has one.

    That is 1 + the number of steps, of 1 to ``rounds - 1``, whose slope has changed by no more; a
    change above one is counted as none, as the authors do.
    """
    slope = curve.slope(np.arange(1.0, max(rounds, 2)))
    if not slope[0] > 0 or not np.isfinite(slope).all():
        return None
    change = np.abs(slope - slope[0]) / slope[0]
    return 1 + int(np.count_nonzero((change <= r) | (change > 1)))


def has_bent(
    values: Sequence[float], r: float, rounds: int, *, trim: bool = True, points: int = FEWEST
) -> bool:
    """Return whether early learning is over: the curve has lost the share ``r`` of its slope.

    The values are the IoU of the initial model and after each round so far of all ``rounds``.
    """
    if len(values) < points:
        return False
    cut = flat_head(values, keep=points) if trim else 0
    curve = fit_curve(values[cut:])
    step = None if curve is None else bend(curve, r, rounds)
    return step is not None and len(values) - 1 >= step + cut


METHOD = ADELE
