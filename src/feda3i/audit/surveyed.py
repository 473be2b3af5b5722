"""An audit without pixels: by what the sites of a federation sent to their server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from feda3i.audit.assemble import Material
from feda3i.audit.judge import CONTOUR, EDGES, Scale, SiteNumbers
from feda3i.engine.events import read_events
from feda3i.engine.model_file import read_model
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError, summary
from feda3i.quality import SIDE, Counts, Offset
from feda3i.quality.rating import Part, Rating

SILENT = "it sent no offset"
NOTES = (
    "the model had seen these masks in its warm-up, so offsets may come out a little small",
    "single cases stay at the sites; each can run feda3i audit for itself",
)


def from_survey(folder: RunFolder) -> Material:
    """Return what a server's event log knows: two numbers per site and class, and no pixel."""
    try:
        return _material(folder)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise RunError(
            f"the survey in '{folder.events}' is damaged ({summary(error)}); restore it from a copy"
        ) from None


def _material(folder: RunFolder) -> Material:
    surveys = [event for event in read_events(folder.events, "round") if event.get("survey")]
    if not surveys:
        raise RunError(
            f"'{folder.path}' has no survey to audit: only FedA3I asks sites how they draw, after "
            f"its warm-up (method=feda3i, method.t1). To train a model on data at hand instead: "
            f"feda3i audit FOLDER"
        )
    event, recipe = surveys[-1], folder.recipe()
    rating = Rating.from_dict(event["survey"])
    if any(part.offset is None or not np.isfinite(part.offset).any() for part in rating.parts):
        raise RunError(
            f"the sites of '{folder.path}' sent no offsets: the paper's rule asks for losses only. "
            f"Run FedA3I with method.safe=true, or look at the survey: feda3i report {folder.path}"
        )
    cases, size = _cases(folder), _size(folder)
    names = folder.manifest().get("data", {}).get("classes") or [
        f"class {part.class_number}" for part in rating.parts
    ]
    counts = event["survey"].get("objects", {})
    return Material(
        title=recipe.title or folder.path.name,
        how=(
            f"the survey of round {event['round']}: each site compared its own masks with the "
            f"warmed-up model and sent a few numbers and counts; no case and no pixel left it"
        ),
        scale=Scale(f"px of cases of {size} px", size / SIDE),
        classes=tuple(map(str, names)),
        sites=[_numbers(part, rating.sites, cases, SIDE / size) for part in rating.parts],
        objects={site: Counts.received(values) for site, values in counts.items()},
        notes=NOTES,
    )


def _numbers(
    part: Part, sites: tuple[str, ...], cases: Mapping[str, int], pixel: float
) -> dict[str, SiteNumbers]:
    """Return what each site sent, in px at 256."""
    unknown = np.full((len(sites), 2), np.nan)
    sent = {CONTOUR: part.offset, EDGES: part.edge}
    found = {}
    for row, site in enumerate(sites):
        number, answers = cases.get(site, 0), {}
        for name, pairs in sent.items():
            value, error = (unknown if pairs is None else pixel * pairs)[row].tolist()
            is_sent = math.isfinite(value) and math.isfinite(error) and error > 0
            told = Offset(value, error, number) if is_sent else Offset.unknown(number, SILENT)
            answers[name] = told
        found[site] = SiteNumbers(number, answers)
    return found


def _cases(folder: RunFolder) -> dict[str, int]:
    """Return the cases of every site: those of the start, and of sites that came later."""
    found: dict[str, Any] = dict(folder.manifest().get("data", {}).get("sites", {}))
    for event in read_events(folder.events, "join"):
        found.update(event["sites"])
    return {site: int(count) for site, count in found.items()}


def _size(folder: RunFolder) -> int:
    """Return the side in pixels of the cases whose pixels offsets are told in."""
    recipe = folder.recipe()
    if recipe.train.patch:  # cases may have sizes of their own
        return SIDE
    size = recipe.data.options().get("size")
    return int(size or read_model(folder.model, trust_code=False)[0].format.shape[0])
