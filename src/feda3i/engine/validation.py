"""Validation in a run: keep the model that is best on cases that nobody trains on; stop early.

Sites send means over their own validation cases; the test cases have no part in any choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import InstanceOf

from feda3i.core.messages import Params
from feda3i.engine.events import Record
from feda3i.engine.scoring import Row

if TYPE_CHECKING:
    from feda3i.recipe.sections import ValidationSection


class Best(Record):
    """The best model so far, and how many scorings in a row have not been better since."""

    round: int
    score: float
    params: InstanceOf[Params]
    waited: int = 0


@dataclass
class BestWatch:
    """What the ``[validation]`` section asks for, and the best model of the rounds so far."""

    wanted: ValidationSection
    best: Best | None = None

    def is_due(self, round: int, rounds: int) -> bool:
        """Return whether the model is scored after this round."""
        return self.wanted.share > 0 and (round % self.wanted.every == 0 or round == rounds)

    def take(self, number: int, params: Params, rows: Sequence[Row]) -> dict[str, Any]:
        """Take in the scores of a round; return what the round's event says of them."""
        score = score_of(rows)
        if not math.isfinite(score):
            return {}
        if self.best is None or score > self.best.score:
            self.best = Best(round=number, score=score, params=params)
        else:
            self.best = self.best.model_copy(update={"waited": self.best.waited + 1})
        return {"validation": round(score, 6), "best_round": self.best.round}

    @property
    def is_over(self) -> bool:
        """Return whether the model has not become better for as long as the recipe waits."""
        waited = 0 if self.best is None else self.best.waited
        return 0 < self.wanted.patience <= waited

    def notes(self, played: int, rounds: int) -> list[str]:
        """Return what the end of a run says of its validation."""
        if self.wanted.share > 0 and self.best is None:
            return ["no site sent a validation score, so there is no best model"]
        if self.best is None or played == rounds:
            return []
        return [
            f"stopped early after {played} of {rounds} rounds: the validation Dice was best in "
            f"round {self.best.round} ({self.best.score:.4f})"
        ]


def score_of(rows: Sequence[Row]) -> float:
    """Return the mean Dice over classes of the means over all sites' cases; NaN without any.

    >>> score_of([{"class": 1, "cases": 3, "dice": 0.5}, {"class": 1, "cases": 1, "dice": 0.9}])
    0.6
    """
    by_class: dict[int, tuple[float, float]] = {}
    for row in rows:
        dice = row.get("dice")
        if dice is not None and math.isfinite(dice):
            total, cases = by_class.get(row["class"], (0.0, 0.0))
            by_class[row["class"]] = (total + dice * row["cases"], cases + row["cases"])
    means = [by_class[k][0] / by_class[k][1] for k in sorted(by_class)]
    return sum(means) / len(means) if means else math.nan
