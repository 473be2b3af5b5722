"""Which numbers of an event a sink gets, and under which names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from feda3i.log.events import Event
from feda3i.values import flat_items

SKIPPED = frozenset({"event", "round", "rows", "said", "missing", "survey", "survey_missing"})


def event_numbers(event: Event) -> dict[str, float]:
    """Return the numbers of an event by name; ``site_loss/A`` is that of site A.

    Scores are the means of the round's own summary; rows of single cases are left out.

    >>> event_numbers({"event": "round", "round": 2, "loss": 0.5, "site_loss": {"A": 0.4}})
    {'loss': 0.5, 'site_loss/A': 0.4}
    """
    if event["event"] != "round":
        return {}
    found: dict[str, float] = {}
    for key, value in event.items():
        if key not in SKIPPED:
            found.update(_flat(key, value))
    found.update(_survey(event.get("survey")))
    return found


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield numbers of a value: itself, those of a dictionary, those of a short list."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if math.isfinite(value):
            yield name, float(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}/{key}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, item in enumerate(value, 1):
            yield from _flat(f"{name}/{place}", item)


def _survey(survey: Any) -> Iterator[tuple[str, float]]:
    """Yield the offset of each site that was asked for it."""
    if not isinstance(survey, Mapping):
        return
    parts = survey.get("parts", ())
    for part in parts:
        name = "offset" if len(parts) == 1 else f"offset_of_class_{part.get('class_number')}"
        pairs = part.get("offset") or ()
        for site, pair in zip(survey.get("sites", ()), pairs, strict=False):
            yield from _flat(f"{name}/{site}", pair[0])


def params_of(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return a recipe as flat text: ``train.lr`` -> ``0.005``."""
    return {key: str(value) for key, value in flat_items(recipe)}
