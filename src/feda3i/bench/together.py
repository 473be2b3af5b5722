"""Execute, in this process, one of several runs that share their beginning."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from feda3i.bench.branching import Branches, begin_from, last_shared
from feda3i.core.cases import Federation
from feda3i.engine.run import Result, describe, job_of, resume, run
from feda3i.log.console import Listener
from feda3i.recipe import Recipe


class Keeper(Listener):
    """Pass on everything to another listener, and keep checkpoints that other runs begin with."""

    def __init__(
        self, other: Listener, branches: Branches, path: Path, wanted: Collection[int]
    ) -> None:
        self._other, self._branches, self._path, self._wanted = other, branches, path, wanted
        for told in ("note", "doing", "begin", "site", "end"):
            setattr(self, told, getattr(other, told))

    def round(self, event: dict[str, Any]) -> None:
        """Keep the checkpoint if its round is wanted, and pass on what came out."""
        if event["round"] in self._wanted:
            self._branches.keep(self._path, self._wanted)
        self._other.round(event)


def run_or_branch(
    recipe: Recipe,
    path: Path,
    federation: Federation,
    branches: Path,
    wanted: Collection[int],
    listener: Listener,
) -> Result:
    """Run a recipe, starting from another run's checkpoint where that is bit-equal to its own.

    Parameters
    ----------
    branches
        The folder in which the runs leave checkpoints for each other.
    wanted
        Rounds whose checkpoints others may begin with.
    """
    kept = Branches(branches, recipe, describe(federation))
    saved = kept.best()
    if saved is not None:
        begin_from(saved, path, job_of(recipe, federation), federation)
        return resume(path, federation=federation, listener=listener)
    if last_shared(recipe):
        listener = Keeper(listener, kept, path, wanted)
    return run(recipe, path, federation=federation, listener=listener)
