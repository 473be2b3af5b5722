"""An audit without pixels: by what the sites of a run told their server."""

from typing import Any

from feda3i.audit.assemble import build_audit
from feda3i.audit.judge import EDGES, Audit, Scale, SiteNumbers
from feda3i.engine.events import read_events
from feda3i.engine.model_file import read_model
from feda3i.engine.redrawing import offset_of
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import RunError, summary
from feda3i.quality import SIDE, Counts

NOTES = ("single cases stay at the sites; each can run feda3i audit for itself",)


def from_survey(folder: RunFolder) -> Audit:
    """Audit what a server's event log knows: a few numbers per site and class, and no pixel."""
    try:
        return _audit(folder)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise RunError(
            f"the survey in '{folder.events}' is damaged ({summary(error)}); restore it from a copy"
        ) from None


def _audit(folder: RunFolder) -> Audit:
    rounds = list(read_events(folder.events, "round"))
    if not (told := [event for event in rounds if event.get("offsets")]):
        raise RunError(
            f"the sites of '{folder.path}' told nobody how they draw: they do in runs that redraw "
            f"masks (method=redraw, or redraw.on=true). To train a model on data at hand instead: "
            f"feda3i audit FOLDER"
        )
    event, cases, offsets = told[-1], _cases(folder), told[-1]["offsets"]
    names = folder.manifest().get("data", {}).get("classes")
    names = names or [f"class {k + 1}" for k in range(len(next(iter(offsets.values()))))]
    surveys = [event["survey"] for event in rounds if event.get("survey")]
    counts = surveys[-1].get("objects", {}) if surveys else {}
    return build_audit(
        title=folder.recipe().title or folder.path.name,
        how=(
            f"what the sites told in round {event['round']}: each compared its own masks with the "
            f"borders in its images and sent a few numbers; no case and no pixel left it"
        ),
        scale=Scale(f"px of cases of {_size(folder)} px", _size(folder) / SIDE),
        classes=tuple(map(str, names)),
        sites=[
            {
                site: SiteNumbers(cases.get(site, 0), {EDGES: offset_of(rows[k])})
                for site, rows in sorted(offsets.items())
            }
            for k in range(len(names))
        ],
        objects={site: Counts.received(values) for site, values in counts.items()},
        notes=NOTES,
    )


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
