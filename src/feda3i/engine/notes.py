"""What a finished run says that is not what its name promises: an idle method, a lost training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feda3i.engine.events import read_events

if TYPE_CHECKING:
    from feda3i.engine.scoring import Row
    from feda3i.methods.base import Method

GREW = 3.0  # times the first loss (or 0.1, if that is more) that a later one must lie above it
HIGHEST = 10.0  # no sensible model has such a loss; knowing nothing is 0.69


def notes_before(method: Method, rounds: int) -> list[str]:
    """Return which phases of a method this run is too short for."""
    return [
        f"{phase} would begin in round {first}, but this run ends after round {rounds}: it will "
        f"never act; run more rounds, or let it begin earlier with the method's options"
        for phase, first in method.phases(rounds, {}).items()
        if first is not None and first > rounds
    ]


def notes_after(
    method: Method, state: Mapping[str, Any], losses: Sequence[float], rows: list[Row]
) -> list[str]:
    """Return what must be known before the result is believed.

    ``losses`` are the mean training losses of all rounds, ``rows`` the last scores of test cases.
    """
    rounds = len(losses)
    notes = [
        f"{phase} never acted: the run ended after round {rounds}"
        for phase, first in method.phases(rounds, state).items()
        if first is None or first > rounds
    ]
    return [*notes, *note_of_losses(losses), *note_of_masks(rows)]


def note_of_losses(losses: Sequence[float]) -> list[str]:
    """Return a note if the training loss is far above that of the first round, or of any model.

    >>> note_of_losses([0.7, 0.5, 0.6])
    []
    >>> note_of_losses([0.7, 1e6])
    ['the training diverged: its loss is 1e+06 in round 2, 0.7 in round 1; try a smaller train.lr']
    """
    first, last = (losses[0], losses[-1]) if losses else (0.0, 0.0)
    if last <= HIGHEST and last - first <= GREW * max(abs(first), 0.1):
        return []
    before = f", {first:.3g} in round 1" if len(losses) > 1 else ""
    return [
        f"the training diverged: its loss is {last:.3g} in round {len(losses)}{before}; "
        f"try a smaller train.lr"
    ]


def note_of_masks(rows: Sequence[Row]) -> list[str]:
    """Return a note on each class that is found nowhere, or everywhere, in cases that have it.

    >>> note_of_masks([{"empty": "prediction", "covered": 0.0}])[0].partition(";")[0]
    'class 1: the model predicts nothing in any of the 1 test masks with an object'
    """
    notes = []
    for k in sorted({row.get("class", 1) for row in rows}):
        own = [row for row in rows if row.get("class", 1) == k]
        there = [row for row in own if row.get("empty") in ("none", "prediction")]
        is_nothing = all(row["empty"] == "prediction" for row in there)
        if there and (is_nothing or all(row.get("covered", 0.0) >= 0.999 for row in there)):
            what = "nothing" if is_nothing else "no background"
            notes.append(
                f"class {k}: the model predicts {what} in any of the {len(there)} test masks with "
                f"an object; see the losses in events.jsonl; more rounds or a smaller train.lr may "
                f"help"
            )
    return notes


def losses_of(events: Path) -> list[float]:
    """Return the mean training loss of every round so far."""
    if not events.exists():
        return []
    found = (event["loss"] for event in read_events(events, "round"))
    return [math.inf if loss is None else float(loss) for loss in found]


def final_notes(events: Path) -> tuple[str, ...]:
    """Return the notes at the end of a finished run."""
    return tuple(str(event["text"]) for event in read_events(events, "note") if event["is_result"])
