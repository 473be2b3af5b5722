"""A run folder as a report reads it: nothing is refused, everything odd is said.

A report is most wanted when something went wrong, so a folder that is unfinished, damaged, of an
older version or from somebody else still gives what it holds. All values are checked here, once.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from feda3i.engine.lock import check_kinds, is_held
from feda3i.engine.manifest import FORMAT
from feda3i.errors import RunError
from feda3i.metrics import SCORES
from feda3i.quality import Rating

State = Literal["done", "under way", "unfinished", "never began"]
Row = dict[str, Any]
LARGEST = 1e100


@dataclass(frozen=True)
class RoundFacts:
    """What the log says of one round."""

    number: int
    loss: float | None
    scores: Mapping[str, float]
    seconds: float | None
    asked: int
    answered: tuple[str, ...]
    missing: Mapping[str, str]
    received: Mapping[str, int]
    """Bytes that came from each site, where a network counted them."""


@dataclass
class RunLog:
    """Everything that a report needs to know of one run.

    Attributes
    ----------
    path, state
        Where it lies, and how far it came.
    recipe, manifest, stages
        What was run.
    rounds
        In order.
    ratings
        Round and result of every survey.
    weights
        Of the last round that has any: site -> one weight, or one per stage.
    test, train
        Scores of cases after the last scored round.
    facts
        Other values that a method recorded, the last of each.
    notes
        What the run said of itself.
    problems
        What is wrong with the folder, in sentences.
    """

    path: Path
    state: State = "never began"
    recipe: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    rounds: list[RoundFacts] = field(default_factory=list)
    ratings: list[tuple[int, Rating]] = field(default_factory=list)
    weights: dict[str, list[float]] = field(default_factory=dict)
    test: list[Row] = field(default_factory=list)
    train: list[Row] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    survey_missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

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
        seed = self.recipe.get("seed", self.manifest.get("seed"))
        return whole_of(seed, 2**63)

    @property
    def planned(self) -> int:
        """Return how many rounds the run was to have; 0 if unknown."""
        rounds = self.recipe.get("rounds")
        return whole_of(rounds) or 0

    @property
    def cases(self) -> dict[str, int]:
        """Return the sites and their numbers of cases; sites of which none is known have 0."""
        found = {
            str(site): count
            for site, given in table_of(self.data.get("sites")).items()
            if (count := whole_of(given)) is not None
        }
        if table_of(self.recipe.get("method")).get("name") == "central":
            found = {}  # one pooled site trained; the manifest names those it was made of
        for one in self.rounds:
            for site in (*one.answered, *one.missing):
                found.setdefault(site, 0)
        return dict(sorted(found.items()))

    @property
    def mu(self) -> dict[str, float]:
        """Return the true offset of each site's annotator in pixels; empty if nobody knows."""
        notes = table_of(self.data.get("notes"))
        given = {
            str(site): number_of(table_of(one).get("mu"))
            for site, one in table_of(notes.get("annotators")).items()
        }
        return {site: mu for site, mu in given.items() if mu is not None}


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


def read_run(path: Path) -> RunLog:
    """Read a run folder, whatever its state."""
    check_kinds(path)
    log = RunLog(path)
    log.manifest = _manifest(log)
    log.recipe = _recipe(log)
    _read_events(log)
    log.state = _state(log)
    if not log.rounds:
        log.problems.append("its log holds no finished round")
    elif log.state == "unfinished":
        of = f" of {log.planned}" if log.planned else ""
        log.problems.append(
            f"it is not finished: its log ends after round {log.rounds[-1].number}{of}; go on with "
            f"'feda3i resume', or read the figures as those of a shorter run"
        )
    elif log.state == "under way":
        log.notes.append("it is under way: the figures are those of its rounds so far")
    return log


def _state(log: RunLog) -> State:
    if (log.path / "DONE").is_file():
        return "done"
    if is_held(log.path):
        return "under way"
    return "unfinished" if log.rounds else "never began"


def _manifest(log: RunLog) -> dict[str, Any]:
    try:
        content = json.loads((log.path / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        log.problems.append("it has no manifest.json: versions, data and sites are not known")
        return {}
    except (OSError, ValueError, RecursionError):
        log.problems.append("its manifest.json cannot be read: versions, data and sites are lost")
        return {}
    manifest = table_of(content)
    if manifest.get("format") != FORMAT:
        log.problems.append(
            f"it was written by feda3i {str(manifest.get('feda3i', 'of unknown version'))[:40]} in "
            f"run format {str(manifest.get('format', 'unknown'))[:20]}, and this version writes "
            f"format {FORMAT}: some figures may be missing"
        )
    return manifest


def _recipe(log: RunLog) -> dict[str, Any]:
    try:
        return tomllib.loads((log.path / "recipe.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        log.problems.append("it has no recipe.toml; the recipe is the one that its log begins with")
    except (OSError, ValueError, RecursionError):
        log.problems.append(
            "its recipe.toml cannot be read; the one that its log begins with is used"
        )
    return {}


# -- events ---------------------------------------------------------------------------------------


def _read_events(log: RunLog) -> None:
    """Take what the report needs from the event log, line by line: logs can be large."""
    damaged: list[int] = []
    try:
        with (log.path / "events.jsonl").open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    log.problems.append(
                        "its log ends in the middle of a line, as after a crash; that line is left "
                        "out"
                    )
                elif not _take(log, line):
                    damaged.append(number)
    except OSError:
        log.problems.append("it has no event log that can be read")
    if damaged:
        lines = "line" if len(damaged) == 1 else "lines"
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        log.problems.append(f"its log is damaged in {lines} {shown}; what they said is left out")


def _take(log: RunLog, line: bytes) -> bool:
    """Take one line; return whether it was an event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
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


def _take_round(log: RunLog, event: dict[str, Any]) -> bool:
    number = whole_of(event.get("round"))
    if number is None:
        return False
    losses = table_of(event.get("site_loss"))
    scores = {name: number_of(event.get(name)) for name in SCORES}
    received = {k: whole_of(v) for k, v in table_of(event.get("bytes_received")).items()}
    log.rounds.append(
        RoundFacts(
            number,
            number_of(event.get("loss")),
            {name: value for name, value in scores.items() if value is not None},
            number_of(event.get("seconds")),
            whole_of(event.get("asked")) or len(losses),
            tuple(sorted(map(str, losses))),
            {str(k): str(v) for k, v in table_of(event.get("missing")).items()},
            {str(site): size for site, size in received.items() if size is not None},
        )
    )
    weights = {str(k): _weights(v) for k, v in table_of(event.get("weights")).items()}
    if weights and all(weights.values()) and len({len(w) for w in weights.values()}) == 1:
        log.weights = weights
    log.survey_missing |= {str(k): str(v) for k, v in table_of(event.get("survey_missing")).items()}
    log.facts |= {key: event[key] for key in ("t1", "t1_reason", "noisy", "stage") if key in event}
    return "survey" not in event or _take_survey(log, number, event["survey"])


def _take_survey(log: RunLog, number: int, survey: Any) -> bool:
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


def _take_scores(log: RunLog, event: dict[str, Any]) -> bool:
    rows = event.get("rows")
    if not isinstance(rows, list):
        return False
    found = [row for row in rows if isinstance(row, dict) and "case" in row]
    if event.get("split") == "test":
        log.test = found
    elif event.get("split") == "train":
        log.train = found
    return True


def _weights(value: Any) -> list[float]:
    given = value if isinstance(value, list) else [value]
    numbers = [number_of(one) for one in given]
    return [] if None in numbers else [float(one or 0.0) for one in numbers]


def table_of(value: Any) -> dict[str, Any]:
    """Return a value if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def number_of(value: Any) -> float | None:
    """Return a value if it is a number of a size that sums can bear."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None  # NaN is not smaller either


def whole_of(value: Any, below: int = 10**15) -> int | None:
    """Return a value if it is a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < below else None
