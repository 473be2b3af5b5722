"""A run folder as a report reads it, whatever state the run is in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from feda3i.engine.events import Number, Real, Record, mistake_of, read_events
from feda3i.engine.lock import is_held
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import FedA3IError, RunError
from feda3i.quality import SIDE, Rating
from feda3i.recipe import Recipe

State = Literal["done", "under way", "unfinished", "never began"]
Row = dict[str, Any]
Numbers = Annotated[
    list[Real], BeforeValidator(lambda given: given if isinstance(given, list) else [given])
]
Offset = Annotated[list[Real], Field(min_length=4, max_length=4)]
"""Pixels at 256 outside the border in the images, standard error, cases, radius of the objects."""


class RoundFacts(Record):
    """What the log says of one round."""

    round: int
    loss: Number
    dice: Number = None
    iou: Number = None
    hd95: Number = None
    seconds: Real
    site_loss: dict[str, Number]  # of the sites that took part
    missing: dict[str, str]
    weights: dict[str, Numbers] = Field({})
    offsets: dict[str, list[Offset]] = Field({})
    moved: dict[str, list[Real]] = Field({})
    survey_missing: dict[str, str] = Field({})
    t1_reason: str | None = None
    survey: dict[str, Any] | None = None


@dataclass
class RunFacts:
    """Everything that a report needs to know of one run."""

    path: Path
    recipe: Recipe
    manifest: dict[str, Any]
    state: State = "never began"
    stages: list[str] = field(default_factory=list)
    rounds: list[RoundFacts] = field(default_factory=list)
    ratings: list[tuple[int, Rating]] = field(default_factory=list)
    """Round and result of every survey."""
    weights: dict[str, list[float]] = field(default_factory=dict)
    """Of the last round that has any: site -> one weight, or one per stage."""
    offsets: dict[str, list[Offset]] = field(default_factory=dict)
    """Of each site and class."""
    moved: dict[str, list[float]] = field(default_factory=dict)
    """Pixels at 256 by which each site moved its contours outwards, by class."""
    # Scores of cases after the last scored round
    test: list[Row] = field(default_factory=list)
    train: list[Row] = field(default_factory=list)
    survey_missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the run said of itself
    problems: list[str] = field(default_factory=list)  # what is wrong with the run, in sentences

    @property
    def name(self) -> str:
        """Return what the folder is called."""
        return self.path.name or str(self.path)

    @property
    def data(self) -> dict[str, Any]:
        """Return what the manifest says of the data."""
        data: dict[str, Any] = self.manifest["data"]
        return data

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return self.recipe.method.name

    @property
    def cases(self) -> dict[str, int]:
        """Return the number of cases of each site; 0 if unknown."""
        # One pooled site trained; the manifest names those it was made of.
        found = {} if self.method == "central" else dict(self.data.get("sites", {}))
        seen = [site for one in self.rounds for site in (*one.site_loss, *one.missing)]
        return dict(sorted((dict.fromkeys(seen, 0) | found).items()))

    @property
    def mu(self) -> dict[str, float]:
        """Return the true offset of each site's annotator in pixels; empty if it is unknown."""
        annotators = self.data.get("notes", {}).get("annotators", {})
        return {site: one["mu"] for site, one in annotators.items() if "mu" in one}

    @property
    def unit(self) -> tuple[float, str]:
        """Return what one pixel at 256 is in pixels of the cases, and their name."""
        size = self.recipe.data.options().get("size")
        return (size / SIDE, "px") if size else (1.0, "px at 256")


def find_runs(places: list[Path]) -> list[Path]:
    """Return the run folders among and below the given folders, each once.

    Raises ``RunError`` if a place holds none.
    """
    found: dict[Path, Path] = {}
    for place in places:
        runs = [place] if RunFolder(place).is_run else [*_below(place)]
        if not runs:
            raise RunError(
                f"expected a run folder at '{place}', or one that holds some: found no "
                f"manifest.json there or below it"
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _below(place: Path, depth: int = 3) -> Iterator[Path]:
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if RunFolder(path).is_run:
            yield path
        elif depth > 1 and not path.is_symlink() and not path.name.startswith("."):
            yield from _below(path, depth - 1)


def read_runs(paths: Sequence[Path]) -> tuple[list[RunFacts], list[str]]:
    """Read run folders; also return why some were left out, in words."""
    runs, left = [], []
    for path in paths:
        try:
            runs.append(read_run(path))
        except FedA3IError as error:
            left.append(str(error))
    return runs, left


def read_run(path: Path) -> RunFacts:
    """Read a run folder, whatever its state; ``RunError`` if it is damaged or was edited."""
    folder = RunFolder.open(path)
    run = RunFacts(path, folder.recipe(), folder.manifest())
    try:
        for event in read_events(folder.events) if folder.events.exists() else ():
            _take(run, event)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = mistake_of(error) if isinstance(error, ValidationError) else "its survey is odd"
        raise RunError(f"the event log '{folder.events}' is damaged: {what}") from None
    if not run.rounds:
        run.problems.append("its log holds no finished round")
    if folder.is_done:
        run.state = "done"
    elif is_held(path):
        run.state = "under way"
        run.notes.append("it is under way: the figures are those of its rounds so far")
    elif run.rounds:
        run.state = "unfinished"
        run.problems.append(
            f"it is not finished: its log ends after round {run.rounds[-1].round} of "
            f"{run.recipe.rounds}; go on with 'feda3i resume', or read the figures as those of a "
            f"shorter run"
        )
    return run


def _take(run: RunFacts, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "start":
        run.stages = event["stages"]
    elif kind == "score" and event["split"] in ("test", "train"):
        setattr(run, event["split"], event["rows"])
    elif kind == "note" and event["text"] not in run.notes:
        run.notes.append(event["text"])
    elif kind == "round":
        facts = RoundFacts.model_validate(event)
        run.rounds.append(facts)
        if facts.weights and len({len(row) for row in facts.weights.values()}) == 1:
            run.weights = facts.weights
        run.offsets |= facts.offsets
        run.moved |= facts.moved
        run.survey_missing |= facts.survey_missing
        if facts.survey is not None:
            rating = Rating.from_dict(facts.survey)
            for part in rating.parts:
                groups = part.grouping
                sizes = {len(part.q), len(groups.labels), len(groups.strength), len(part.weights)}
                if sizes != {len(rating.sites)}:
                    raise ValueError("one entry per site expected")
            run.ratings.append((facts.round, rating))
