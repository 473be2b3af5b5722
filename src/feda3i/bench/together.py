"""Execute, in this process, one of several runs that share their beginning."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from feda3i.bench.branching import Branches, begin_from
from feda3i.core.cases import Federation
from feda3i.engine.run import Result, describe, job_of, resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.log.console import Listener, Relay
from feda3i.recipe import Recipe


class Keeper(Relay):
    """Keep the checkpoints that other runs begin with, and pass everything on."""

    def __init__(
        self, inner: Listener, branches: Branches, path: Path, wanted: Collection[int]
    ) -> None:
        super().__init__(inner)
        self._branches, self._path, self._wanted = branches, path, wanted

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Keep a checkpoint that a kill may have prevented."""
        if done in self._wanted:
            self._branches.keep(self._path, self._wanted)
        self.inner.begin(title, rounds, done)

    def round(self, event: dict[str, Any]) -> None:
        """Keep the checkpoint if its round is wanted."""
        if event["round"] in self._wanted:
            self._branches.keep(self._path, self._wanted)
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

    Runs leave each other checkpoints in the folder ``branches``, after the rounds that are
    ``wanted``.
    """
    kept = Branches(branches, recipe, describe(federation))
    saved = None if RunFolder(path).is_run else kept.best()
    if saved is not None:
        begin_from(saved, path, job_of(recipe, federation), federation)
    keeper = Keeper(listener, kept, path, wanted)
    if RunFolder(path).is_run:
        return resume(path, federation=federation, listener=keeper, trust_code=True)
    return run(recipe, path, federation=federation, listener=keeper)
