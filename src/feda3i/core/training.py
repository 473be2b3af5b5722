"""How a site trains: the ``[train]`` section of a recipe."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Training(BaseModel):
    """How a site trains. The defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: Annotated[int, Field(ge=1, le=10_000)] = 5
    """How often a site passes over its cases in a round."""
    batch: Annotated[int, Field(ge=1, le=4096)] = 8
    """Cases of one optimiser step; a site with fewer takes all it has."""
    lr: Annotated[float, Field(gt=0, le=10)] = 5e-3
    """Learning rate of Adam."""
    betas: tuple[
        Annotated[float, Field(ge=0, lt=1)],
        Annotated[float, Field(ge=0, lt=1)],
    ] = (0.9, 0.99)
    """Decay rates of Adam's two running means."""
