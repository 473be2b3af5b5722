"""A run folder as a report reads it: nothing is refused, everything odd is reported.

Reports matter most when something went wrong, so a folder that is unfinished, damaged, of an older
version or from somebody else is read as far as possible.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from feda3i.engine.events import parse_event
from feda3i.engine.lock import check_kinds, is_held
from feda3i.engine.manifest import FORMAT
from feda3i.errors import RunError
from feda3i.quality import Rating
from feda3i.report.run_facts import RoundFacts, RunFacts, State, table_of


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
    log.manifest = _manifest(log)
    log.recipe = _recipe(log)
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


def _manifest(log: RunFacts) -> dict[str, Any]:
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


def _recipe(log: RunFacts) -> dict[str, Any]:
    try:
        return tomllib.loads((log.path / "recipe.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        log.problems.append("it has no recipe.toml; the recipe is taken from the start of its log")
    except (OSError, ValueError, RecursionError):
        log.problems.append(
            "its recipe.toml cannot be read; the recipe is taken from the start of its log"
        )
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
