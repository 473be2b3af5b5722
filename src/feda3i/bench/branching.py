"""Runs that share their beginning: it is trained once, and the others branch off it.

FedA3I is FedAvg until its survey, so its run may begin with FedAvg's checkpoint of that round. What
comes out is equal to the bit: model, scores and log, but for clock times.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from feda3i.core.cases import Federation
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.engine.console import Listener, Relay
from feda3i.engine.events import EventLog
from feda3i.engine.job import Job
from feda3i.engine.lock import is_free, is_held
from feda3i.engine.manifest import PACKAGES, processor, version_of
from feda3i.engine.redrawing import is_wanted as redraws
from feda3i.engine.run import Result, describe, facts_of, job_of, resume, run, write_start
from feda3i.engine.run_folder import RunFolder
from feda3i.errors import WireError
from feda3i.files import write_file
from feda3i.methods.base import make_method
from feda3i.recipe import Recipe
from feda3i.recipe.sections import without_machine
from feda3i.simulation.views import view_of

NEW = ".new"


def last_shared(recipe: Recipe) -> int:
    """Return the last round that a run may take from another; it plays its last round itself.

    Reference rows are FedAvg on other data: they share nothing. Nor do runs with validation, whose
    best model so far is part of their state, as are the offsets of those that redraw masks.
    """
    is_apart = view_of(recipe.method.name) is not None or redraws(recipe)
    if is_apart or recipe.validation.share:
        return 0
    options = json.dumps(recipe.method.options(), sort_keys=True)
    return min(_plain_rounds(recipe.method.name, options, recipe.rounds), recipe.rounds - 1)


@cache
def _plain_rounds(name: str, options: str, rounds: int) -> int:
    """Return how many of a method's first rounds are FedAvg's: those before its first phase."""
    method = make_method(name, json.loads(options))
    firsts = method.phases(rounds, {}).values()
    if not method.begins_as_fedavg or None in firsts:
        return 0
    return min([rounds, *(first - 1 for first in firsts if first is not None)])


def family_of(recipe: Recipe) -> str:
    """Return a name that recipes have in common if one may begin with the rounds of the other."""
    values = without_machine(recipe.shared())
    # A longer run cannot begin with one whose learning rate falls towards its last round.
    is_alike = recipe.train.schedule == "constant"
    for key in ("title", "methods", *(["rounds"] if is_alike else [])):
        values.pop(key, None)
    if last_shared(recipe) > 0:
        values["method"] = {"loss": values["method"].get("loss", "ce")}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


class Branches:
    """Checkpoints for runs of one family, cases, libraries and kind of processor.

    ``data`` is what a manifest says of the cases.
    """

    def __init__(self, folder: Path, recipe: Recipe, data: Mapping[str, Any]) -> None:
        known = [data[key] for key in ("sha256", "test_sha256", "sites_sha256")]
        known += [{package: version_of(package) for package in PACKAGES}, dict(processor())]
        tag = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:8]
        self.folder = folder / family_of(recipe) / tag
        self.recipe = recipe

    def keep(self, run: Path, wanted: Collection[int]) -> None:
        """Keep the checkpoint that a run has just written, if its round is wanted."""
        saved = RunFolder(run).load() if wanted else None
        if saved is None or saved["round"] not in wanted:
            return
        path = self._path(int(saved["round"]))
        if path.exists():
            return
        with (run / "events.jsonl").open("rb") as file:
            lines = file.read(int(saved["events"])).decode().splitlines(keepends=True)
        rounds = "".join(line for line in lines if json.loads(line)["event"] in ("round", "score"))
        self.folder.mkdir(parents=True, exist_ok=True)
        tree = {"round": saved["round"], "params": saved["params"], "events": rounds}
        write_file(path, seal(pack(tree)))

    def best(self) -> dict[str, Any] | None:
        """Return the latest checkpoint that this run may begin with."""
        for number in range(last_shared(self.recipe), 0, -1):
            try:
                tree: dict[str, Any] = unpack(unseal(self._path(number).read_bytes()))
            except (FileNotFoundError, WireError):  # a damaged one is as good as none
                continue
            return tree
        return None

    def _path(self, number: int) -> Path:
        return self.folder / f"round-{number}.bin"


def begin_from(saved: Mapping[str, Any], path: Path, job: Job, federation: Federation) -> None:
    """Make a run folder that stands after the rounds of a kept checkpoint; resume it to go on.

    It is made beside its place and moved there whole: a kill leaves no half of a run.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{NEW}")
    shutil.rmtree(beside, ignore_errors=True)
    folder = RunFolder.claim(beside)
    try:
        layout = job.layout
        layout.check(saved["params"])
        log = EventLog(folder.events)
        write_start(log, job, layout.stages)
        log.close()
        with folder.events.open("a", encoding="utf-8") as file:
            file.write(saved["events"])
        folder.save(int(saved["round"]), saved["params"], {})
        folder.begin(job.recipe, {**facts_of(job, federation), "branched": saved["round"]})
    finally:
        folder.close()
    if is_free(path) and not is_held(path):
        shutil.rmtree(path, ignore_errors=True)  # what a start that was killed left
    os.rename(beside, path)


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished run folders that a kill left behind."""
    for beside in folder.glob(f".*{NEW}"):
        if not is_held(beside):
            shutil.rmtree(beside, ignore_errors=True)


class Keeper(Relay):
    """Keep the checkpoints that other runs begin with, and pass everything on."""

    def __init__(
        self, inner: Listener, branches: Branches, path: Path, wanted: Collection[int]
    ) -> None:
        super().__init__(inner)
        self._branches, self._path, self._wanted = branches, path, set(wanted)

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Keep a checkpoint that a kill may have prevented."""
        self._branches.keep(self._path, {done} & self._wanted)
        self.inner.begin(title, rounds, done)

    def round(self, event: dict[str, Any]) -> None:
        """Keep the checkpoint if its round is wanted."""
        self._branches.keep(self._path, {event["round"]} & self._wanted)
        self.inner.round(event)


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
    kept = Branches(branches, recipe, describe(federation))
    saved = None if RunFolder(path).is_run else kept.best()
    if saved is not None:
        begin_from(saved, path, job_of(recipe, federation), federation)
    keeper = Keeper(listener, kept, path, wanted)
    if RunFolder(path).is_run:
        return resume(path, federation=federation, listener=keeper, trust_code=True)
    return run(recipe, path, federation=federation, listener=keeper)
