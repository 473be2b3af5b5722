"""How a site trains: the ``[train]`` section of a recipe."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Side = Annotated[int, Field(ge=16, le=4096)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Schedule = Literal["constant", "poly", "cosine"]
POWER = 0.9  # exponent of the poly schedule, as nnU-Net has it


class Training(BaseModel):
    """How a site trains. The defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    epochs: Annotated[int, Field(ge=1, le=10_000)] = 5
    """How often a site passes over its cases in a round."""
    batch: Annotated[int, Field(ge=1, le=4096)] = 8
    """Cases of one optimiser step; a site with fewer takes all it has."""
    lr: Annotated[float, Field(gt=0, le=10)] = 5e-3
    """Learning rate of the optimiser; ``schedule`` and ``warm_up`` scale it by round."""
    betas: Annotated[tuple[Decay, Decay], Field(strict=False)] = (0.9, 0.99)
    """Decay rates of the two running means of ``adam`` and ``adamw``."""
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    """What makes a step of a gradient; it is new in every round, and its moments with it."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum of ``sgd``."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Pull of the weights towards 0: added to the gradient, apart from it with ``adamw``."""
    clip: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """The largest norm of a step's gradient over the whole network; 0: any."""
    schedule: Schedule = "constant"
    """The learning rate over the rounds: ``constant``, or falling as ``poly`` or ``cosine``."""
    warm_up: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Rounds at the beginning in which the learning rate rises to its full value."""
    patch: Annotated[list[Side], Field(min_length=2, max_length=3)] | None = None
    """Size of the patches that a site trains on, e.g. [32, 48, 32]; not set: whole cases. Every
    epoch draws one patch per case; a case that is smaller is surrounded by its lowest value."""
    foreground: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the patches centred on a voxel of the mask, all classes alike; not set: 0.5."""
    overlap: Annotated[float, Field(ge=0, le=0.9)] | None = None
    """Share of a window that the next covers again in predictions of whole cases; not set: 0.5."""

    @model_validator(mode="after")
    def _check_patch(self) -> Self:
        for name in ("foreground", "overlap"):
            if self.patch is None and getattr(self, name) is not None:
                raise ValueError(f"train.{name} has no effect without train.patch")
        return self

    augment: Literal["none", "dermoscopy", "ultrasound", "mri"] = "none"
    """How cases are changed whenever a site trains on them, images and masks alike."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """What convolutions compute in while a site trains (autocast; ``float16`` with a scaler);
    weights, losses, merging and predictions are float32 in any case."""

    def in_round(self, round: int, rounds: int) -> Training:
        """Return the settings of one round (counted from 1): the learning rate is that round's."""
        factor = rate_factor(self.schedule, self.warm_up, round, rounds)
        return self if factor == 1.0 else self.model_copy(update={"lr": self.lr * factor})


def rate_factor(schedule: Schedule, warm_up: int, round: int, rounds: int) -> float:
    """Return what the learning rate is multiplied by in a round, counted from 1; never 0.

    The warm-up rises in equal steps; the schedule falls over the rounds that are left.

    >>> [rate_factor("constant", 2, t, 5) for t in (1, 2, 3)]
    [0.3333333333333333, 0.6666666666666666, 1.0]
    >>> [round(rate_factor("cosine", 0, t, 4), 3) for t in (1, 2, 3, 4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if round <= warm_up:
        return round / (warm_up + 1)
    done = (round - 1 - warm_up) / max(rounds - warm_up, 1)
    if schedule == "poly":
        return float((1.0 - done) ** POWER)
    return 0.5 * (1.0 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0
