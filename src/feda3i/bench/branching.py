"""Runs that share their beginning: it is trained once, and the others branch off it.

FedA3I is FedAvg until its survey, so its run may begin with FedAvg's checkpoint of that round. What
comes out is equal to the bit: model, scores and log, but for clock times.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from feda3i.core.cases import Federation
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.engine.console import Listener, Relay
from feda3i.engine.events import EventLog
from feda3i.engine.job import Job
from feda3i.engine.manifest import packages, processor
from feda3i.engine.redrawing import is_wanted as redraws
from feda3i.engine.run import Result, describe, job_of, resume, run, write_start
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import WireError
from feda3i.files import write_file
from feda3i.methods.base import make_method
from feda3i.recipe import Recipe
from feda3i.recipe.sections import without_machine
from feda3i.simulation.views import view_of


def last_shared(recipe: Recipe) -> int:
    """Return the last round that a run may take from another; it plays its last round itself.

    Reference rows are FedAvg on other data: they share nothing. Nor do runs with validation, whose
    best model so far is part of their state, as are the offsets of those that redraw masks.
    """
    name = recipe.method.name
    if view_of(name) is not None or redraws(recipe) or recipe.validation.share:
        return 0
    method = make_method(name, recipe.method.options())
    firsts = method.phases(recipe.rounds, {}).values()
    if not method.begins_as_fedavg or None in firsts:
        return 0
    return min([recipe.rounds, *(first or 0 for first in firsts)]) - 1


def family_of(recipe: Recipe) -> str:
    """Return a name that recipes have in common if one may begin with the rounds of the other."""
    values = without_machine(recipe.shared())
    # A longer run cannot begin with one whose learning rate falls towards its last round.
    is_alike = recipe.train.schedule == "constant"
    for key in ("title", "methods", *(["rounds"] if is_alike else [])):
        values.pop(key, None)
    if last_shared(recipe) > 0:
        values["method"] = {"loss": values["method"].get("loss", "ce")}
    return _hashed(values)


def _hashed(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def run_or_branch(
    recipe: Recipe,
    path: Path,
    federation: Federation,
    branches: Path,
    wanted: Collection[int],
    listener: Listener,
) -> Result:
    """Run a recipe from where its folder is, or from another run's checkpoint if that is the same.

    It leaves checkpoints for others in ``branches``, after the rounds that are ``wanted``.
    """
    data = describe(federation)
    place = [data[key] for key in ("sha256", "test_sha256", "sites_sha256")]
    place += [packages(), dict(processor())]
    kept = branches / family_of(recipe) / _hashed(place)
    if not RunFolder(path).is_run:
        saved = _latest(kept, last_shared(recipe))
        if saved is not None:
            _begin_from(saved, path, job_of(recipe, federation), federation)
    keeper = _Keeper(listener, kept, path, wanted)
    if RunFolder(path).is_run:
        return resume(path, federation=federation, listener=keeper, trust_code=True)
    return run(recipe, path, federation=federation, listener=keeper)


class _Keeper(Relay):
    """Keep the checkpoints that other runs begin with, and pass everything on."""

    def __init__(self, inner: Listener, kept: Path, run: Path, wanted: Collection[int]) -> None:
        super().__init__(inner)
        self._kept, self._run, self._wanted = kept, run, wanted

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Keep a checkpoint that a kill may have prevented."""
        self._keep(done)
        self.inner.begin(title, rounds, done)

    def round(self, event: dict[str, Any]) -> None:
        """Keep the checkpoint if its round is wanted."""
        self._keep(event["round"])
        self.inner.round(event)

    def _keep(self, number: int) -> None:
        saved = RunFolder(self._run).load() if number in self._wanted else None
        path = _checkpoint(self._kept, number)
        if saved is None or saved["round"] != number or path.exists():
            return
        with (self._run / "events.jsonl").open("rb") as file:
            lines = file.read(int(saved["events"])).decode().splitlines(keepends=True)
        rounds = "".join(line for line in lines if json.loads(line)["event"] in ("round", "score"))
        path.parent.mkdir(parents=True, exist_ok=True)
        tree = {"round": number, "params": saved["params"], "events": rounds}
        write_file(path, seal(pack(tree)))


def _checkpoint(kept: Path, number: int) -> Path:
    return kept / f"round-{number}.bin"


def _latest(kept: Path, last: int) -> dict[str, Any] | None:
    """Return the latest checkpoint up to a round; a damaged one is as good as none."""
    for number in range(last, 0, -1):
        try:
            tree: dict[str, Any] = unpack(unseal(_checkpoint(kept, number).read_bytes()))
        except (FileNotFoundError, WireError):
            continue
        return tree
    return None


def _begin_from(saved: Mapping[str, Any], path: Path, job: Job, federation: Federation) -> None:
    """Make a run folder that stands after the rounds of a kept checkpoint."""
    job.layout.check(saved["params"])

    def begin(folder: RunFolder) -> None:
        with closing(EventLog(folder.events)) as log:
            write_start(log, job, job.layout.stages)
        with folder.events.open("a", encoding="utf-8") as file:
            file.write(saved["events"])
        folder.save(int(saved["round"]), saved["params"], {})

    facts = {"data": describe(federation), "branched": saved["round"]}
    RunFolder.create(path, job.recipe, facts, begin).close()
