"""The result of a finished run as a small text file: it can be kept, copied and merged.

A result is found by its recipe, not by its name: the same run serves every grid that needs it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from feda3i import quality
from feda3i.bench.grid import identity
from feda3i.engine.events import Event, last_rows, read_events
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import FedA3IError, RecipeError, RunError
from feda3i.files import write_file
from feda3i.recipe import Recipe, validate

SUFFIX = ".json"
COLLAPSED = 0.02  # mean Dice below which a model predicts next to nothing: that is no score
Dice = Annotated[float, Field(ge=0, le=1)]


def _recipe_in(values: Any) -> Recipe:
    if isinstance(values, dict) and isinstance(values.get("method"), dict):
        # Until version 0.2 FedA3I had a second rule; ``safe = false`` was the paper's, as today.
        method = {k: v for k, v in values["method"].items() if (k, v) != ("safe", False)}
        values = {**values, "method": method}
    try:
        return values if isinstance(values, Recipe) else validate(values)
    except (RecipeError, TypeError, AttributeError) as error:
        raise ValueError(f"expected a recipe: {error}") from None


def _plain(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe without the places of the machine, as its result holds it."""
    return {key: value for key, value in recipe.shared().items() if key != "methods"}


class Machine(BaseModel):
    """Where a run was made, and how long a round took."""

    model_config = ConfigDict(frozen=True)

    rounds_played: int = 0
    seconds_per_round: float = 0.0
    workers: int | str = 1
    processor: dict[str, Any] = {}
    packages: dict[str, Any] = {}
    machine: str = ""


class RunResult(BaseModel):
    """What a finished run says; also the format of its file, which may hold more."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: Literal[1] = 1
    recipe: Annotated[Recipe, BeforeValidator(_recipe_in), PlainSerializer(_plain)]
    hashes: dict[str, str]
    """Of data, test cases, partition, noisy masks and model."""
    dice: Annotated[dict[int, Dice], Field(min_length=1)]
    """Mean test Dice by round, for the rounds that were scored."""
    cases: dict[str, Dice]
    """Dice after the last round of every test case."""
    why: dict[str, float | str | None] = {}
    """What is known of the weights (``reasons_of``)."""
    machine: Machine = Machine()

    @cached_property
    def digest(self) -> str:
        """Return the hash of the recipe as this version of feda3i understands it."""
        return identity(self.recipe)

    def last(self, rounds: int = 1) -> float:
        """Return the mean Dice of the last rounds that were scored."""
        values = [self.dice[number] for number in sorted(self.dice)][-rounds:]
        return sum(values) / len(values)

    def fact(self, key: str) -> float | None:
        """Return a number that is known about the weights."""
        value = self.why.get(key)
        return value if isinstance(value, float) else None

    @property
    def is_collapsed(self) -> bool:
        """Return whether the model ended up predicting next to nothing."""
        return self.last() < COLLAPSED

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all: JSON, one entry per line."""
        rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.model_dump().items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, ("{\n" + ",\n".join(rows) + "\n}\n").encode())


def read(path: Path) -> RunResult:
    """Read a result; ``RunError`` if it is none."""
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        raise RunError(f"'{path}' is not a file")
    try:
        return RunResult.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise RunError(f"'{path}' is not the result of a run: {place}: {first['msg']}") from None


def result_of(path: Path) -> RunResult:
    """Return the result of a finished run folder."""
    folder = RunFolder.open(path)
    if not folder.is_done:
        raise RunError(f"'{path}' is not finished: feda3i resume {path}")
    manifest, recipe = folder.manifest(), folder.recipe()
    data = manifest["data"]
    hashes = {
        "data": data["sha256"],
        "test": data["test_sha256"],
        "partition": data["sites_sha256"],
        "masks": data["notes"].get("masks_sha256"),
        "model": folder.done.read_text(encoding="utf-8").strip(),
    }
    rounds = list(read_events(folder.events, "round"))
    played = rounds[int(manifest.get("branched", 0)) :]
    cases: dict[str, list[float]] = {}  # several rows where a case has several classes or models
    for row in last_rows(folder.events):
        cases.setdefault(str(row["case"]), []).append(float(row["dice"]))
    why = reasons_of(rounds, data["sites"], offsets_of(data["notes"].get("annotators", {})))
    return RunResult(
        recipe=recipe,
        hashes={key: str(value) for key, value in hashes.items() if value},
        dice={int(e["round"]): round(e["dice"], 6) for e in rounds if e.get("dice") is not None},
        cases={case: round(sum(values) / len(values), 4) for case, values in cases.items()},
        why={k: round(v, 4) if isinstance(v, float) else v for k, v in why.items()},
        machine=Machine(
            rounds_played=len(played),
            seconds_per_round=sum(e["seconds"] for e in played) / max(len(played), 1),
            workers=recipe.engine.workers,
            **{key: manifest[key] for key in ("packages", "processor", "machine")},
        ),
    )


def offsets_of(annotators: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the true mean offset of each site, where known, in pixels at 256 px a side."""
    known = {site: one for site, one in annotators.items() if "mu" in one}
    return {site: float(one["mu"]) / float(one.get("scale", 1.0)) for site, one in known.items()}


def bias_of(weights: Mapping[str, float], mu: Mapping[str, float]) -> float:
    """Return sum_i w_i mu_i, the offset that these weights leave; they need not sum to one."""
    return sum(w * mu[site] for site, w in weights.items()) / sum(weights.values())


def reasons_of(
    rounds: Sequence[Event], sites: Mapping[str, int], mu: Mapping[str, float]
) -> dict[str, Any]:
    """Return what is known about the weights of a run whose annotators are simulated.

    ``mu`` is the true mean offset of each site's annotator; empty if unknown.
    """
    found: dict[str, Any] = {"residual_bias_fedavg": bias_of(sites, mu)} if mu else {}
    surveys = [event for event in rounds if event.get("survey")]
    if not surveys:
        return found
    event = surveys[-1]
    rating = quality.Rating.from_dict(event["survey"])
    weights = rating.weights(rating.sites, [float(sites[site]) for site in rating.sites])
    found["effective_sites"] = float(quality.effective_sites(weights))
    before = [e["dice"] for e in rounds if e["round"] < event["round"] and "dice" in e]
    found["warm_up_dice"] = before[-1] if before else None
    if mu:
        found["residual_bias"] = bias_of(dict(zip(rating.sites, weights.tolist(), strict=True)), mu)
        right = [
            (label == "larger") == (mu[site] > 0)
            for site, label in zip(rating.sites, rating.parts[0].grouping.labels, strict=True)
            if label in ("larger", "smaller")
        ]
        found["grouped_right"] = fmean(right) if right else None
    return found


def collect(places: Iterable[Path]) -> tuple[dict[str, RunResult], list[str]]:
    """Return results by the hash of their recipe, from files and run folders, however deep.

    Also returns what could not be used, in words. Of two results of one recipe the one of the
    later file name wins; they are the same run, perhaps on another processor.
    """
    found: dict[str, RunResult] = {}
    left: list[str] = []
    for place in places:
        if not place.exists():
            raise RunError(f"expected results or run folders, found nothing at '{place}'")
        for path in _candidates(place):
            try:
                result = read(path) if path.suffix == SUFFIX else result_of(path)
                found[result.digest] = result
            except FedA3IError as error:
                left.append(str(error))
    return found, left


def _candidates(place: Path) -> list[Path]:
    if place.is_file() or (place / "manifest.json").is_file():
        return [place]
    runs = sorted(path.parent for path in place.rglob("DONE"))
    files = [
        path
        for path in sorted(place.rglob(f"*{SUFFIX}"))
        if not (path.parent / "manifest.json").exists() and set(runs).isdisjoint(path.parents)
    ]
    return [*runs, *files]
