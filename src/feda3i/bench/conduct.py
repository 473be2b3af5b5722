"""Run a grid: skip what is done, share beginnings, keep all cores busy, survive a kill."""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import timedelta
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
LOOK = 2.0
"""Seconds between two looks at the runs under way."""
OFTEN = 60.0
"""Seconds between two lines about them."""
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

    @property
    def kind(self) -> str:
        """Return what runs that take about the same time for a round have in common."""
        return f"{self.cell.setting.split()[0]} {self.cell.row}"


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

    def seconds(self) -> dict[str, float]:
        """Return core seconds per round by kind of run, from existing results of this grid."""
        found = {}
        for name in self.done:
            machine = self.known[self.tasks[name].cell.digest].machine
            found[self.tasks[name].kind] = machine.seconds_per_round * machine.cores
        return {kind: seconds for kind, seconds in found.items() if seconds > 0}

    def test_of(self, cell: GridCell) -> str | None:
        """Return the hash of the test cases that results on the same data were scored on."""
        data = cell.recipe.shared()["data"]
        known = (r for r in self.known.values() if r.data == data)
        return next((result.hashes.get("test") for result in known), None)


def agenda_of(cells: Sequence[GridCell], results: Path) -> Agenda:
    """Return the agenda of these cells; the same run in two places counts once."""
    known, unusable = collect([results]) if results.is_dir() else ({}, [])
    unique = {cell.digest: cell for cell in reversed(cells)}
    chosen = (unique[cell.digest] for cell in cells)
    tasks = {c.name: Task(c, family_of(c.recipe), last_shared(c.recipe)) for c in chosen}
    return Agenda(tasks, known, tuple(unusable))


def left(tasks: Sequence[Task], seconds: Mapping[str, float]) -> float:
    """Return the core seconds of these runs; shared rounds count once.

    Kinds that were not measured take the mean of the others.
    """
    usual = sum(seconds.values()) / len(seconds) if seconds else 0.0
    total, ran = 0.0, dict.fromkeys((task.family for task in tasks), 0)
    for task in tasks:
        rounds = task.rounds - min(task.shared, ran[task.family])
        ran[task.family] = max(ran[task.family], task.shared)
        total += rounds * seconds.get(task.kind, usual)
    return total


def side_by_side(agenda: Agenda) -> int:
    """Return how many runs go on at once: one per core, or fewer if memory is short; one on a GPU.

    What a run needs is what the network says of one training step, and a process with its cases.
    """
    import torch

    from feda3i import models

    needs = [PROCESS]
    for task in agenda.missing():
        recipe = task.cell.recipe
        device = recipe.engine.device
        if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
            return 1
        footprint = getattr(models.REGISTRY.get(recipe.model.name), "footprint", None)
        size = recipe.data.options().get("size")
        if footprint is not None and isinstance(size, int):
            width = recipe.model.options().get("width", 16)
            needs.append(PROCESS + int(footprint((size, size), recipe.train.batch, width)))
    return max(1, min(cores(), available() // max(needs)))


# -- in a worker process --------------------------------------------------------------------------


class Assignment(NamedTuple):
    """A run that a worker process is to do, and where what belongs to it lies."""

    recipe: Recipe
    path: Path
    branches: Path
    wanted: list[int]
    """Rounds whose checkpoints others of the family begin with."""
    result: Path
    test: str | None
    """SHA-256 of the test cases that other results were scored on."""


class Outcome(NamedTuple):
    """How a run ended."""

    dice: float = 0.0
    seconds: float = 0.0  # of one core, per round
    failed: str = ""  # why it did, if it did


_federations: dict[str, Federation] = {}


def play(order: Assignment) -> Outcome:
    """Finish one run and write its result; what fails is told, not raised."""
    try:
        result = _result(order)
    except FedA3IError as error:
        return Outcome(failed=str(error))
    except OSError as error:  # such as a full disk
        return Outcome(failed=f"{error.filename or order.path}: {error.strerror or error}")
    except Exception as error:  # one run must not end the others
        traceback.print_exc()
        return Outcome(failed=f"this is a bug in feda3i: {summary(error)}")
    return Outcome(result.last(), result.machine.seconds_per_round * result.machine.cores)


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
    result = result_of(order.path, federation)
    result.write(order.result)
    return result


def _federation(recipe: Recipe) -> Federation:
    """Return the cases of a recipe; those of the last settings are kept."""
    from feda3i.simulation.federation import federation_of

    values = recipe.to_dict()
    data, noise = values["data"], values["noise"]
    is_fixed = "seed" in data and (noise["name"] == "none" or "seed" in noise)
    key = json.dumps([data, noise, None if is_fixed else recipe.seed], sort_keys=True)
    federation = _federations.pop(key, None) or federation_of(recipe)
    _federations[key] = federation  # as the last one
    for old in list(_federations)[:-KEPT]:
        del _federations[old]
    return federation


def new_worker() -> Pool[Assignment, Outcome]:
    """Return a process that executes one run after the other, so that libraries load once.

    A process of its own for each run under way: one that dies costs its run alone.
    """
    return Pool(play, 1, apart=True)


# -- in the process of the bench ------------------------------------------------------------------


@dataclass
class _Running:
    """A run under way, the rest of its family, and the worker that does them."""

    task: Task
    rest: list[Task]
    worker: Pool[Assignment, Outcome]


def conduct(
    agenda: Agenda,
    out: Path,
    results: Path,
    say: Say,
    jobs: int = 1,
    each: int | None = None,
    new_worker: Callable[[], Pool[Assignment, Outcome]] = new_worker,
) -> dict[str, str]:
    """Execute the runs that are missing, and return why some failed, by name.

    At most ``jobs`` runs go on at once, each with ``each`` processes: by default one, and more
    only when there are fewer families of runs than cores. The runs of a family come one after the
    other.
    """
    out.mkdir(parents=True, exist_ok=True)
    remove_unfinished(out)
    missing = agenda.missing()
    families: dict[str, list[Task]] = {}
    for task in missing:
        families.setdefault(task.family, []).append(task)
    waiting = list(families.values())
    running: dict[Future[list[Outcome]], _Running] = {}
    failed: dict[str, str] = {}
    seconds, number, shown = agenda.seconds(), len(agenda.done), time.monotonic()

    def start(family: list[Task], worker: Pool[Assignment, Outcome]) -> None:
        task, rest = family[0], family[1:]
        wanted = {other.shared for other in rest if 0 < other.shared <= task.shared}
        workers = each or max(1, cores() // (1 + len(running) + len(waiting)))
        recipe = task.cell.recipe
        if recipe.engine.workers == "auto":
            engine = recipe.engine.model_copy(update={"workers": workers})
            recipe = recipe.model_copy(update={"engine": engine})
        result = results / f"{task.name}{SUFFIX}"
        order = Assignment(
            *(recipe, out / task.name, out / BRANCHES, sorted(wanted), result),
            test=agenda.test_of(task.cell),
        )
        running[worker.submit(order)] = _Running(task, rest, worker)

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                start(waiting.pop(0), new_worker())
            for future in wait(running, timeout=LOOK, return_when=FIRST_COMPLETED).done:
                one = running.pop(future)
                outcome, number = _outcome(future), number + 1
                seconds |= {one.task.kind: outcome.seconds} if outcome.seconds else {}
                ended = f"FAILED: {outcome.failed}" if outcome.failed else f"{outcome.dice:.4f}"
                say(f"[{number}/{len(agenda.tasks)}] {one.task.name}  {ended}")
                if outcome.failed:
                    failed[one.task.name] = outcome.failed
                is_alive = not isinstance(future.exception(), BrokenProcessPool)
                if not one.rest:  # the checkpoints of a family serve nobody else
                    shutil.rmtree(out / BRANCHES / one.task.family, ignore_errors=True)
                family = one.rest or (waiting.pop(0) if waiting else [])
                if not (family and is_alive):
                    one.worker.close()
                if family:
                    start(family, one.worker if is_alive else new_worker())
            if running and time.monotonic() - shown >= OFTEN:
                shown = time.monotonic()
                say(_under_way(list(running.values()), waiting, out, seconds, number, agenda, jobs))
    finally:
        for one in running.values():
            one.worker.close()  # in whatever round it is: repeating the command goes on from there
    return failed


def _outcome(future: Future[list[Outcome]]) -> Outcome:
    try:
        return future.result()[0]
    except BrokenProcessPool:
        return Outcome(failed="its process died; start the bench again to continue from there")


def _under_way(
    running: Sequence[_Running],
    waiting: Sequence[Sequence[Task]],
    out: Path,
    seconds: Mapping[str, float],
    number: int,
    agenda: Agenda,
    jobs: int,
) -> str:
    """Return a line: runs done, time left, and the round that each run under way is in."""
    tasks = [task for one in running for task in (one.task, *one.rest)]
    rounds = {one.task.name: _rounds(out / one.task.name) for one in running}
    played = sum(rounds[o.task.name] * seconds.get(o.task.kind, 0) for o in running)
    rest = left([*tasks, *(task for family in waiting for task in family)], seconds) - played
    clock = f", {timedelta(seconds=int(max(rest, 0) / jobs))} left" if seconds else ""
    now = "; ".join(f"{o.task.name} round {rounds[o.task.name]}/{o.task.rounds}" for o in running)
    return f"{number}/{len(agenda.tasks)} runs done{clock} ({now})"


def _rounds(path: Path) -> int:
    """Return how many rounds a run has written into its log."""
    try:
        return (path / "events.jsonl").read_bytes().count(b'"event": "round"')
    except OSError:
        return 0
