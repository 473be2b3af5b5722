"""A run folder as a report reads it: nothing is refused, everything odd is reported.

Reports matter most when something went wrong, so a folder that is unfinished, damaged, of an older
version or from somebody else is read as far as possible: every value is checked once, and an odd
one costs itself alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    OnErrorOmit,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticUseDefault

from feda3i.engine.events import parse_event
from feda3i.engine.lock import check_kinds, is_held
from feda3i.engine.manifest import FORMAT
from feda3i.engine.run_folder import check_log
from feda3i.errors import RunError
from feda3i.quality import SIDE, Rating

State = Literal["done", "under way", "unfinished", "never began"]
Row = dict[str, Any]
LARGEST = 1e100


def _or_default(value: Any, check: Any) -> Any:
    """Take the default of a field instead of an odd value: one field costs that field alone."""
    try:
        return check(value)
    except (ValidationError, OverflowError):
        raise PydanticUseDefault from None


Number = Annotated[float, Field(strict=True, gt=-LARGEST, lt=LARGEST)]
"""A number that is not too large to sum."""
Whole = Annotated[int, Field(strict=True, ge=0, lt=10**15)]
Numbers = Annotated[
    list[Number], BeforeValidator(lambda given: given if isinstance(given, list) else [given])
]
Offset = tuple[Number, Number, Number]
"""Pixels outside the border in the images, standard error, cases."""
Odd = WrapValidator(_or_default)
Texts = Annotated[dict[str, Annotated[str, BeforeValidator(str)]], Odd]


class RoundFacts(BaseModel):
    """What the log says of one round."""

    round: Whole
    loss: Annotated[Number | None, Odd] = None
    dice: Annotated[Number | None, Odd] = None
    iou: Annotated[Number | None, Odd] = None
    hd95: Annotated[Number | None, Odd] = None
    seconds: Annotated[Number | None, Odd] = None
    site_loss: Annotated[dict[str, Any], Odd] = {}
    missing: Texts = {}
    bytes_received: Annotated[dict[str, OnErrorOmit[Whole]], Odd] = {}
    """Bytes that came from each site, where a network counted them."""
    weights: Annotated[dict[str, Numbers], Odd] = {}
    offsets: Annotated[dict[str, OnErrorOmit[list[Offset]]], Odd] = {}
    moved: Annotated[dict[str, OnErrorOmit[Numbers]], Odd] = {}
    survey_missing: Texts = {}
    t1_reason: Any = None

    def score(self, name: str) -> float | None:
        """Return a mean score of the round."""
        found: float | None = getattr(self, name)
        return found

    @property
    def answered(self) -> list[str]:
        """Return the sites that took part."""
        return sorted(self.site_loss)


@dataclass
class RunFacts:
    """Everything that a report needs to know of one run."""

    path: Path
    state: State = "never began"
    recipe: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    rounds: list[RoundFacts] = field(default_factory=list)
    ratings: list[tuple[int, Rating]] = field(default_factory=list)
    """Round and result of every survey."""
    weights: dict[str, list[float]] = field(default_factory=dict)
    """Of the last round that has any: site -> one weight, or one per stage."""
    offsets: dict[str, list[Offset]] = field(default_factory=dict)
    """Of each site and class: pixels outside the border in the images, standard error, cases."""
    moved: dict[str, list[float]] = field(default_factory=dict)
    """Pixels by which each site moved its contours outwards, by class."""
    # Scores of cases after the last scored round
    test: list[Row] = field(default_factory=list)
    train: list[Row] = field(default_factory=list)
    t1_reason: Any = None  # why FedA3I surveyed when it did, with ``t1 = "auto"``
    survey_missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the run said of itself
    problems: list[str] = field(default_factory=list)  # what is wrong with the folder, in sentences

    @property
    def name(self) -> str:
        """Return what the folder is called."""
        return self.path.name or str(self.path)

    @property
    def data(self) -> dict[str, Any]:
        """Return what the manifest says of the data."""
        return table_of(self.manifest.get("data"))

    @property
    def classes(self) -> list[str]:
        """Return the names of the foreground classes; empty if they are not known."""
        given = self.data.get("classes")
        return [str(one) for one in given] if isinstance(given, list) else []

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(table_of(self.recipe.get("method")).get("name", "unknown method"))

    @property
    def seed(self) -> int | None:
        """Return the seed, if it is known."""
        return whole_of(self.recipe.get("seed", self.manifest.get("seed")), 2**63)

    @property
    def planned(self) -> int:
        """Return how many rounds were planned; 0 if unknown."""
        return whole_of(self.recipe.get("rounds")) or 0

    @property
    def cases(self) -> dict[str, int]:
        """Return the number of cases of each site; 0 if unknown."""
        # One pooled site trained; the manifest names those it was made of.
        given = {} if self.method == "central" else table_of(self.data.get("sites"))
        counts = {site: whole_of(count) for site, count in given.items()}
        found = {site: count for site, count in counts.items() if count is not None}
        for one in self.rounds:
            for site in (*one.answered, *one.missing):
                found.setdefault(site, 0)
        return dict(sorted(found.items()))

    @property
    def mu_at_256(self) -> dict[str, float]:
        """Return the true offsets in px at 256; empty where the size of the cases is unknown."""
        size = number_of(table_of(self.recipe.get("data")).get("size"))
        return {site: mu * SIDE / size for site, mu in self.mu.items()} if size else {}

    @property
    def mu(self) -> dict[str, float]:
        """Return the true offset of each site's annotator in pixels; empty if it is unknown."""
        notes = table_of(self.data.get("notes"))
        annotators = table_of(notes.get("annotators"))
        given = {site: number_of(table_of(one).get("mu")) for site, one in annotators.items()}
        return {site: mu for site, mu in given.items() if mu is not None}


def table_of(value: Any) -> dict[str, Any]:
    """Return a value if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def number_of(value: Any) -> float | None:
    """Return a value if it is a number that is not too large to sum."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None  # NaN is not smaller either


def whole_of(value: Any, below: int = 10**15) -> int | None:
    """Return a value if it is a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < below else None


# -- folders --------------------------------------------------------------------------------------


def find_runs(places: list[Path]) -> list[Path]:
    """Return the run folders among and below the given folders, each once.

    Raises ``RunError`` if a place holds none.
    """
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise RunError(
                f"expected a run folder, or one that holds some; found none at '{place}'"
            )
        runs = [place] if _is_run(place) else [p for p in _below(place) if _is_run(p)]
        if not runs:
            raise RunError(
                f"'{place}' holds no run: expected a manifest.json or an events.jsonl in it, or in "
                f"a folder below it"
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in ("manifest.json", "events.jsonl"))


def _below(place: Path, depth: int = 3) -> Iterator[Path]:
    for path in sorted(place.iterdir()):
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield path
            if depth > 1 and not _is_run(path):
                yield from _below(path, depth - 1)


def read_run(path: Path) -> RunFacts:
    """Read a run folder, whatever its state."""
    check_kinds(path)
    log = RunFacts(path)
    log.manifest = _table(log, "manifest.json", json.loads, "versions, data and sites are unknown")
    from_log = "the recipe is taken from the start of its log"
    log.recipe = _table(log, "recipe.toml", tomllib.loads, from_log)
    found = log.manifest.get("format", FORMAT if not log.manifest else "unknown")
    if found != FORMAT:
        log.problems.append(
            f"it was written by feda3i {str(log.manifest.get('feda3i', 'of unknown version'))[:40]}"
            f" in run format {str(found)[:20]}, and this version writes format {FORMAT}: some "
            f"figures may be missing"
        )
    try:
        check_log(path)
    except RunError as error:
        log.problems.append(str(error))
    _read_events(log)
    log.state = _state(log)
    if not log.rounds:
        log.problems.append("its log holds no finished round")
    elif log.state == "unfinished":
        of = f" of {log.planned}" if log.planned else ""
        log.problems.append(
            f"it is not finished: its log ends after round {log.rounds[-1].round}{of}; go on with "
            f"'feda3i resume', or read the figures as those of a shorter run"
        )
    elif log.state == "under way":
        log.notes.append("it is under way: the figures are those of its rounds so far")
    return log


def _state(log: RunFacts) -> State:
    if (log.path / "DONE").is_file():
        return "done"
    if is_held(log.path):
        return "under way"
    return "unfinished" if log.rounds else "never began"


def _table(log: RunFacts, name: str, parse: Callable[[str], Any], lost: str) -> dict[str, Any]:
    """Return what a file of the folder holds; nothing, and a problem, if it cannot be read."""
    try:
        return table_of(parse((log.path / name).read_text(encoding="utf-8")))
    except FileNotFoundError:
        log.problems.append(f"it has no {name}: {lost}")
    except (OSError, ValueError, RecursionError):
        log.problems.append(f"its {name} cannot be read: {lost}")
    return {}


# -- events ---------------------------------------------------------------------------------------


def _read_events(log: RunFacts) -> None:
    """Take what the report needs from the event log, line by line: logs can be large."""
    damaged: list[int] = []
    try:
        with (log.path / "events.jsonl").open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    log.problems.append(
                        "its log ends in the middle of a line, as after a crash; that line is not "
                        "counted"
                    )
                elif not _take(log, line):
                    damaged.append(number)
    except OSError:
        log.problems.append("it has no event log that can be read")
    if damaged:
        lines = "line" if len(damaged) == 1 else "lines"
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        log.problems.append(f"its log is damaged in {lines} {shown}; what they said is left out")


def _take(log: RunFacts, line: bytes) -> bool:
    """Take one line; return whether it was an event."""
    event = parse_event(line)
    if event is None or not isinstance(event["event"], str):
        return False
    kind = event["event"]
    if kind == "start":
        log.recipe = log.recipe or table_of(event.get("recipe"))
        stages = event.get("stages")
        log.stages = [str(one) for one in stages] if isinstance(stages, list) else []
    elif kind == "round":
        return _take_round(log, event)
    elif kind == "score":
        return _take_scores(log, event)
    elif kind == "note":
        log.notes += [note for note in [str(event.get("text", ""))] if note not in log.notes]
    return True


def _take_round(log: RunFacts, event: dict[str, Any]) -> bool:
    try:
        facts = RoundFacts.model_validate(event)
    except (ValidationError, OverflowError):
        return False
    log.rounds.append(facts)
    if facts.weights and len({len(row) for row in facts.weights.values()}) == 1:
        log.weights = facts.weights
    log.offsets |= facts.offsets
    log.moved |= facts.moved
    log.survey_missing |= facts.survey_missing
    log.t1_reason = facts.t1_reason or log.t1_reason
    return "survey" not in event or _take_survey(log, facts.round, event["survey"])


def _take_survey(log: RunFacts, number: int, survey: Any) -> bool:
    try:
        rating = Rating.from_dict(survey)
        sites = len(rating.sites)
        for part in rating.parts:
            groups = part.grouping
            sizes = {len(part.q), len(groups.labels), len(groups.strength), len(part.weights)}
            if sizes != {sites} or not isinstance(part.class_number, int):
                raise ValueError("one entry per site expected")
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        log.problems.append(f"its survey of round {number} cannot be read")
        return True
    if rating.parts:
        log.ratings.append((number, rating))
    return True


def _take_scores(log: RunFacts, event: dict[str, Any]) -> bool:
    rows = event.get("rows")
    if not isinstance(rows, list):
        return False
    found = [row for row in rows if isinstance(row, dict) and "case" in row]
    if event.get("split") == "test":
        log.test = found
    elif event.get("split") == "train":
        log.train = found
    return True
