"""Validation in a run: score the model on cases that nobody trains on, keep the best, stop early.

Sites send means over their own validation cases; the test cases have no part in any choice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import InstanceOf

from feda3i.core.messages import Params
from feda3i.engine.events import Record, mistake_of
from feda3i.engine.scoring import Row
from feda3i.errors import RunError
from feda3i.files import write_file

if TYPE_CHECKING:
    from feda3i.recipe.sections import ValidationSection


MODEL, ABOUT = "best.safetensors", "best.json"
"""The best model of a run, and what is known of it."""


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

    def take(self, round: int, params: Params, rows: Sequence[Row]) -> dict[str, Any]:
        """Take in the scores of a round; return what the round's event says of them."""
        score = score_of(rows)
        if not math.isfinite(score):
            return {}
        if self.best is None or score > self.best.score:
            self.best = Best(round=round, score=score, params=params)
        else:
            self.best = self.best.model_copy(update={"waited": self.best.waited + 1})
        return {"validation": round_off(score), "best_round": self.best.round}

    @property
    def is_over(self) -> bool:
        """Return whether the model has not become better for as long as the recipe waits."""
        waited = 0 if self.best is None else self.best.waited
        return 0 < self.wanted.patience <= waited

    def notes(self, played: int, rounds: int) -> list[str]:
        """Return what the end of a run says of its validation."""
        if self.wanted.share == 0:
            return []
        if self.best is None:
            return ["no site sent a validation score, so there is no best model"]
        if played == rounds:
            return []
        return [
            f"stopped early after {played} of {rounds} rounds: the validation Dice was best in "
            f"round {self.best.round} ({self.best.score:.4f})"
        ]

    def tree(self) -> dict[str, Any] | None:
        """Return plain data for the checkpoint; ``None`` as long as there is no best model."""
        return None if self.best is None else dict(self.best)


def round_off(score: float) -> float:
    """Return a score as the log shows it."""
    return round(score, 6)


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


# -- files ----------------------------------------------------------------------------------------


class BestModel(Record):
    """What a run folder says of its best model."""

    round: int
    score: float
    sha256: str


def write_best(folder: Path, best: Best, model: bytes) -> None:
    """Write the best model beside the last, and which round it is of."""
    digest = hashlib.sha256(model).hexdigest()
    about = BestModel(round=best.round, score=round_off(best.score), sha256=digest)
    write_file(folder / MODEL, model)
    write_file(folder / ABOUT, about.model_dump_json().encode())


def read_best(folder: Path) -> BestModel | None:
    """Return what a run folder says of its best model; ``None`` if it has none."""
    path = folder / ABOUT
    if not path.exists():
        return None
    try:
        return BestModel.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"'{path}' cannot be read: {mistake_of(error)}") from None


def check_best(folder: Path) -> Path:
    """Return the file of the best model if it is the one that the run made."""
    about = read_best(folder)
    if about is None:
        raise RunError(
            f"'{folder}' has no best model: its run kept no validation cases (validation.share), "
            f"or is not done; leave --best out to use the last model"
        )
    try:
        found = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
    except OSError as error:
        raise RunError(f"'{folder / MODEL}' cannot be read: {error}") from None
    if found != about.sha256:
        raise RunError(
            f"'{folder / MODEL}' is not the model that this run made: expected SHA-256 "
            f"{about.sha256[:12]} ({ABOUT}), found {found[:12]}"
        )
    return folder / MODEL
