"""Run a grid: skip what is done, share beginnings, keep all cores busy, survive a kill."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from feda3i.bench.branching import family_of, last_shared, remove_unfinished, run_or_branch
from feda3i.bench.grid import GridCell
from feda3i.bench.result import SUFFIX, RunResult, collect, result_of
from feda3i.core.cases import Federation
from feda3i.engine.console import Silent
from feda3i.errors import FedA3IError, RunError, summary
from feda3i.pool import Pool, cores
from feda3i.ram import available
from feda3i.recipe import Recipe

BRANCHES = ".branches"
PROCESS = 700 * 2**20
"""Bytes of a process that trains a small network on some hundred cases."""
KEPT = 2
"""Federations that a process keeps in memory: runs of one setting come one after the other."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """A run to do."""

    cell: GridCell
    family: str  # runs of one family may begin with each other's rounds
    shared: int  # the last round that it may take from another of its family

    @property
    def name(self) -> str:
        """Return the name of the run's folder and result."""
        return self.cell.name

    @property
    def rounds(self) -> int:
        """Return its number of rounds."""
        return self.cell.recipe.rounds


@dataclass(frozen=True)
class Agenda:
    """What a bench has to do: one task per distinct run, and the existing results."""

    tasks: dict[str, Task]  # by name
    known: Mapping[str, RunResult]
    unusable: tuple[str, ...] = ()

    @property
    def done(self) -> list[str]:
        """Return the names of the runs that have a result."""
        return [name for name, task in self.tasks.items() if task.cell.digest in self.known]

    def missing(self) -> list[Task]:
        """Return the runs that are left, family by family, the longest shared beginning first."""
        done = set(self.done)
        tasks = [task for name, task in self.tasks.items() if name not in done]
        place = {family: k for k, family in enumerate(dict.fromkeys(t.family for t in tasks))}
        return sorted(tasks, key=lambda task: (place[task.family], -task.shared))

    def test_of(self, cell: GridCell) -> str | None:
        """Return the hash of the test cases that results on the same data were scored on."""
        data = cell.recipe.shared()["data"]
        known = (r for r in self.known.values() if r.recipe.shared()["data"] == data)
        return next((result.hashes.get("test") for result in known), None)


def agenda_of(cells: Sequence[GridCell], results: Path) -> Agenda:
    """Return the agenda of these cells; the same run in two places counts once."""
    known, unusable = collect([results]) if results.is_dir() else ({}, [])
    unique = {cell.digest: cell for cell in reversed(cells)}
    chosen = (unique[cell.digest] for cell in cells)
    tasks = {c.name: Task(c, family_of(c.recipe), last_shared(c.recipe)) for c in chosen}
    return Agenda(tasks, known, tuple(unusable))


def rounds_to_train(tasks: Sequence[Task]) -> list[int]:
    """Return how many rounds each of these runs trains itself; shared ones count once."""
    trained, ran = [], dict.fromkeys((task.family for task in tasks), 0)
    for task in tasks:
        trained.append(task.rounds - min(task.shared, ran[task.family]))
        ran[task.family] = max(ran[task.family], task.shared)
    return trained


def side_by_side(agenda: Agenda) -> int:
    """Return how many runs go on at once: one per core if memory allows, or one on a GPU."""
    import torch

    devices = {task.cell.recipe.engine.device for task in agenda.missing()}
    if any(d.startswith("cuda") or (d == "auto" and torch.cuda.is_available()) for d in devices):
        return 1
    return max(1, min(cores(), available() // PROCESS))


# -- in a worker process --------------------------------------------------------------------------


class Assignment(NamedTuple):
    """A run that a worker process is to do, and where what belongs to it lies."""

    recipe: Recipe
    path: Path
    branches: Path
    wanted: list[int]  # rounds whose checkpoints others of the family begin with
    result: Path
    test: str | None  # SHA-256 of the test cases that other results were scored on


class Outcome(NamedTuple):
    """How a run ended."""

    dice: float = 0.0
    failed: str = ""  # why it did, if it did


_federations: dict[str, Federation] = {}


def play(order: Assignment) -> Outcome:
    """Finish one run and write its result; what fails is told, not raised."""
    try:
        return Outcome(_result(order).last())
    except FedA3IError as error:
        return Outcome(failed=str(error))
    except OSError as error:  # such as a full disk
        return Outcome(failed=f"{error.filename or order.path}: {error.strerror or error}")
    except Exception as error:  # one run must not end the others
        traceback.print_exc()
        return Outcome(failed=f"this is a bug in feda3i: {summary(error)}")


def _result(order: Assignment) -> RunResult:
    federation = _federation(order.recipe)
    found = federation.test.digest()
    if order.test not in (None, found):
        raise RunError(
            f"the results in '{order.result.parent}' were scored on other test cases (SHA-256 "
            f"{str(order.test)[:12]}) than these ({found[:12]}); give the same data, or another "
            f"folder with --results"
        )
    run_or_branch(
        order.recipe, order.path, federation, order.branches, order.wanted, listener=Silent()
    )
    result = result_of(order.path)
    result.write(order.result)
    return result


def _federation(recipe: Recipe) -> Federation:
    """Return the cases of a recipe; those of the last settings are kept."""
    from feda3i.simulation.federation import federation_of

    is_fixed = "seed" in recipe.data.options() and recipe.noise.seed is not None
    is_fixed = is_fixed and not recipe.validation.share
    key = repr((recipe.data, recipe.noise, None if is_fixed else recipe.seed, recipe.validation))
    federation = _federations.pop(key, None) or federation_of(recipe)
    _federations[key] = federation  # as the last one
    for old in list(_federations)[:-KEPT]:
        del _federations[old]
    return federation


def new_worker() -> Pool[Assignment, Outcome]:
    """Return a process that executes one run after the other, so that libraries load once.

    A process of its own for each run under way: one that dies costs its run alone.
    """
    return Pool(play, 1)


# -- in the process of the bench ------------------------------------------------------------------


def conduct(
    agenda: Agenda,
    out: Path,
    results: Path,
    say: Say,
    jobs: int = 1,
    new_worker: Callable[[], Pool[Assignment, Outcome]] = new_worker,
) -> dict[str, str]:
    """Execute the runs that are missing, and return why some failed, by name.

    At most ``jobs`` runs go on at once; they share the cores. The runs of a family come one after
    the other.
    """
    out.mkdir(parents=True, exist_ok=True)
    remove_unfinished(out)
    families: dict[str, list[Task]] = {}
    for task in agenda.missing():
        families.setdefault(task.family, []).append(task)
    waiting = list(families.values())
    each = max(1, cores() // max(1, min(jobs, len(waiting))))
    running: dict[Future[Outcome], tuple[list[Task], Pool[Assignment, Outcome]]] = {}
    failed: dict[str, str] = {}
    number = len(agenda.done)

    def start(family: list[Task], worker: Pool[Assignment, Outcome]) -> None:
        task = family[0]
        wanted = {other.shared for other in family[1:] if 0 < other.shared <= task.shared}
        recipe = task.cell.recipe
        if recipe.engine.workers == "auto":
            engine = recipe.engine.model_copy(update={"workers": each})
            recipe = recipe.model_copy(update={"engine": engine})
        order = Assignment(
            *(recipe, out / task.name, out / BRANCHES, sorted(wanted)),
            *(results / f"{task.name}{SUFFIX}", agenda.test_of(task.cell)),
        )
        running[worker.submit(order)] = (family, worker)

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                start(waiting.pop(0), new_worker())
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                (task, *rest), worker = running.pop(future)
                outcome, number = _outcome(future), number + 1
                ended = f"FAILED: {outcome.failed}" if outcome.failed else f"{outcome.dice:.4f}"
                say(f"[{number}/{len(agenda.tasks)}] {task.name}  {ended}")
                if outcome.failed:
                    failed[task.name] = outcome.failed
                if not rest:  # the checkpoints of a family serve nobody else
                    shutil.rmtree(out / BRANCHES / task.family, ignore_errors=True)
                family = rest or (waiting.pop(0) if waiting else [])
                is_alive = not isinstance(future.exception(), BrokenProcessPool)
                if not (family and is_alive):
                    worker.close()
                if family:
                    start(family, worker if is_alive else new_worker())
    finally:
        for _, worker in running.values():
            worker.close()  # in whatever round it is: repeating the command goes on from there
    return failed


def _outcome(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        return Outcome(failed="its process died; start the bench again to continue from there")
