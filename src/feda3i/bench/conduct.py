"""Run a grid: skip what is done, share beginnings, keep all cores busy, survive a kill."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from feda3i.bench.branching import family_of, last_shared, run_or_branch
from feda3i.bench.grid import GridCell
from feda3i.bench.result import SUFFIX, RunResult, collect, result_of
from feda3i.core.cases import Federation
from feda3i.engine.console import Silent
from feda3i.failures import message_of
from feda3i.pool import Pool, cores
from feda3i.ram import available
from feda3i.recipe import Recipe
from feda3i.simulation.federation import federation_of

BRANCHES = ".branches"
PROCESS = 700 * 2**20  # bytes of a process that trains a small network on some hundred cases


class Task(NamedTuple):
    """A run to do."""

    cell: GridCell
    family: str  # runs of one family may begin with each other's rounds
    shared: int  # the last round that it may take from another of its family


class Agenda(NamedTuple):
    """What a bench has to do: one task per distinct run, and the existing results."""

    tasks: dict[str, Task]  # by the name of the run's folder and result
    known: Mapping[str, RunResult]
    unusable: list[str]

    @property
    def missing(self) -> list[Task]:
        """Return the runs that are left, family by family, the longest shared beginning first."""
        tasks = [task for task in self.tasks.values() if task.cell.digest not in self.known]
        place = {family: k for k, family in enumerate(dict.fromkeys(t.family for t in tasks))}
        return sorted(tasks, key=lambda task: (place[task.family], -task.shared))


def agenda_of(cells: Sequence[GridCell], results: Path) -> Agenda:
    """Return the agenda of these cells; the same run in two places counts once."""
    known, unusable = collect([results]) if results.is_dir() else ({}, [])
    unique = {cell.digest: cell for cell in reversed(cells)}
    chosen = (unique[cell.digest] for cell in cells)
    tasks = {c.name: Task(c, family_of(c.recipe), last_shared(c.recipe)) for c in chosen}
    return Agenda(tasks, known, unusable)


def rounds_to_train(tasks: Sequence[Task]) -> list[int]:
    """Return how many rounds each of these runs trains itself; shared ones count once."""
    trained, ran = [], dict.fromkeys((task.family for task in tasks), 0)
    for task in tasks:
        trained.append(task.cell.recipe.rounds - min(task.shared, ran[task.family]))
        ran[task.family] = max(ran[task.family], task.shared)
    return trained


def side_by_side(agenda: Agenda) -> int:
    """Return how many runs go on at once: one per core if memory allows, or one on a GPU."""
    import torch

    devices = {task.cell.recipe.engine.device for task in agenda.missing}
    if any(d.startswith("cuda") or (d == "auto" and torch.cuda.is_available()) for d in devices):
        return 1
    return max(1, min(cores(), available() // PROCESS))


class Assignment(NamedTuple):
    """A run that a worker process is to do, and where what belongs to it lies."""

    recipe: Recipe
    path: Path
    branches: Path
    wanted: list[int]  # rounds whose checkpoints others of the family begin with
    result: Path


_federations: dict[str, Federation] = {}


def play(order: Assignment) -> float:
    """Finish one run, write its result and return its Dice."""
    recipe = order.recipe
    key = repr((recipe.data, recipe.noise, recipe.validation, recipe.seed))
    if key not in _federations:  # runs on the same cases come one after the other
        _federations.clear()
        _federations[key] = federation_of(recipe)
    cases = _federations[key]
    run_or_branch(recipe, order.path, cases, order.branches, order.wanted, Silent())
    result = result_of(order.path)
    result.write(order.result)
    return result.last()


def conduct(
    agenda: Agenda,
    out: Path,
    results: Path,
    say: Callable[[str], None],
    jobs: int = 1,
    new_worker: Callable[[], Pool[Assignment, float]] = lambda: Pool(play, 1),
) -> dict[str, str]:
    """Execute the runs that are missing, and return why some failed, by name.

    At most ``jobs`` runs go on at once; they share the cores. Each has a process of its own: one
    that dies costs its run alone. The runs of a family come one after the other.
    """
    out.mkdir(parents=True, exist_ok=True)
    families: dict[str, list[Task]] = {}
    for task in agenda.missing:
        families.setdefault(task.family, []).append(task)
    waiting = list(families.values())
    each = max(1, cores() // max(1, min(jobs, len(waiting))))
    running: dict[Future[float], tuple[list[Task], Pool[Assignment, float]]] = {}
    failed: dict[str, str] = {}
    number = len(agenda.tasks) - len(agenda.missing)

    def start(family: list[Task], worker: Pool[Assignment, float]) -> None:
        cell, longest = family[0].cell, family[0].shared
        recipe = cell.recipe
        if recipe.engine.workers == "auto":
            engine = recipe.engine.model_copy(update={"workers": each})
            recipe = recipe.model_copy(update={"engine": engine})
        order = Assignment(
            recipe=recipe,
            path=out / cell.name,
            branches=out / BRANCHES,
            wanted=sorted({task.shared for task in family[1:] if 0 < task.shared <= longest}),
            result=results / f"{cell.name}{SUFFIX}",
        )
        running[worker.submit(order)] = (family, worker)

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                start(waiting.pop(0), new_worker())
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                (task, *rest), worker = running.pop(future)
                number += 1
                try:
                    said = f"{future.result():.4f}"
                except Exception as error:  # one run must not end the others
                    failed[task.cell.name] = why = _reason(error)
                    said = f"FAILED: {why}"
                    worker.close()
                    worker = new_worker()
                say(f"[{number}/{len(agenda.tasks)}] {task.cell.name}  {said}")
                if not rest:  # the checkpoints of a family serve nobody else
                    shutil.rmtree(out / BRANCHES / task.family, ignore_errors=True)
                if family := rest or (waiting.pop(0) if waiting else []):
                    start(family, worker)
                else:
                    worker.close()
    finally:
        for _, worker in running.values():
            worker.close()  # in whatever round it is: repeating the command goes on from there
    return failed


def _reason(error: Exception) -> str:
    if isinstance(error, BrokenProcessPool):
        return "its process died; start the bench again to continue from there"
    return message_of(error)[0]
