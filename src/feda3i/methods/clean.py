"""Clean: FedAvg on the clean masks, the ceiling that noise robust methods try to reach.

Paper
    None: the upper reference row. It needs the underlying truth, so it exists in simulations only.
What changes against FedAvg
    Sites train on the clean masks instead of the given ones; all else is the same.
What stays at the site
    Images, masks, optimiser moments (re-created every round).
What leaves the site
    The network's parameters, the number of cases, the mean training loss.
Cost
    As FedAvg.
Departures
    None. Where a data set knows no clean masks beside the given ones (no noise was added), the
    given ones count as clean and this row equals FedAvg.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from feda3i.methods.base import STRICT, Method


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Clean(Method):
    """FedAvg that simulations give the truth."""

    trains_on: ClassVar[Literal["given", "clean"]] = "clean"


METHOD = Clean
