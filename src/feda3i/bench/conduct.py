"""Run a grid: skip what is done, share beginnings, keep all cores busy, survive a kill."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feda3i.bench.branching import family_of, last_shared, remove_unfinished
from feda3i.bench.grid import GridCell
from feda3i.bench.progress import Progress
from feda3i.bench.result import SUFFIX, RunResult, collect
from feda3i.bench.schedule import Task, left, order, startable, wanted_by, workers_for
from feda3i.pool import ENVIRONMENT, cores
from feda3i.ram import available

BRANCHES = ".branches"
PROCESS = 700 * 2**20
"""Bytes of a process that trains a small network on some hundred cases."""


@dataclass(frozen=True)
class Agenda:
    """What a bench has to do: one cell per distinct run, and the existing results."""

    cells: dict[str, GridCell]  # by name, as are the tasks
    tasks: dict[str, Task]
    known: Mapping[str, RunResult]
    unusable: tuple[str, ...] = ()

    @property
    def done(self) -> list[str]:
        """Return the names of the runs that have a result."""
        return [name for name, cell in self.cells.items() if cell.digest in self.known]

    def missing(self) -> list[Task]:
        """Return the runs that are left, in the order that they are begun in."""
        done = set(self.done)
        return order([task for name, task in self.tasks.items() if name not in done])


def agenda_of(cells: Sequence[GridCell], results: Path) -> Agenda:
    """Return the agenda of these cells; the same run in two places counts once."""
    known, unusable = collect([results]) if results.is_dir() else ({}, [])
    unique = {cell.digest: cell for cell in reversed(cells)}
    named = {unique[cell.digest].name: unique[cell.digest] for cell in cells}
    tasks = {name: _task(cell) for name, cell in named.items()}
    return Agenda(named, tasks, known, tuple(unusable))


def _task(cell: GridCell) -> Task:
    recipe = cell.recipe
    kind = f"{cell.setting.split()[0]} {cell.row}"
    return Task(cell.name, family_of(recipe), last_shared(recipe), recipe.rounds, kind)


def side_by_side(agenda: Agenda) -> int:
    """Return how many runs go on at once: one per core, or fewer if memory is short; one on a GPU.

    What a run needs is what the network says of one training step, and a process with its cases.
    """
    import torch

    from feda3i import models

    needs = [PROCESS]
    for task in agenda.missing():
        recipe = agenda.cells[task.name].recipe
        device = recipe.engine.device
        if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
            return 1
        footprint = getattr(models.REGISTRY.get(recipe.model.name), "footprint", None)
        size = recipe.data.options().get("size")
        if footprint is not None and isinstance(size, int):
            width = recipe.model.options().get("width", 16)
            needs.append(PROCESS + int(footprint((size, size), recipe.train.batch, width)))
    return max(1, min(cores(), available() // max(needs)))


Told = tuple["Process", dict[str, Any]]
START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "sys.path += [p for p in sys.argv[1:] if p not in sys.path]; "
    "from feda3i.bench.player import main; main()"
)
"""Ctrl-C is the parent's to handle. What this process can import comes after all that is installed,
and nothing from the working directory (-P)."""


class Process:
    """One worker process; its messages go into a queue shared by all of them."""

    def __init__(self, told: queue.Queue[Told]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, *map(os.path.abspath, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            text=True,
            encoding="utf-8",
        )
        self._told = told
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, order: Mapping[str, Any]) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it died: the listener tells

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put((self, json.loads(line)))
        code = self._process.wait()
        self._told.put((self, {"died": code}))

    def stop(self) -> None:
        """End the process, in whatever round it is."""
        self._process.kill()
        self._process.wait()


class Conductor:
    """Start runs as cores become free, and note how they end.

    At most ``cores`` processes train at once, ``each`` of them for one run: by default one, and
    more only when there are not enough runs.
    """

    def __init__(
        self,
        agenda: Agenda,
        out: Path,
        results: Path,
        progress: Progress,
        cores: int = 1,
        each: int | None = None,
    ) -> None:
        self._agenda, self._out, self._results = agenda, out, results
        self._tasks = agenda.tasks
        self._progress, self._cores, self._each = progress, cores, each
        self._told: queue.Queue[Told] = queue.Queue()
        self._idle: list[Process] = []
        self._busy: dict[Process, str] = {}
        self._rounds: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._seconds = times_of(agenda)
        self.failed: dict[str, str] = {}

    def play(self) -> None:
        """Play all runs that are missing."""
        self._out.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self._out)
        waiting = self._agenda.missing()
        try:
            while waiting or self._busy:
                self._start(waiting)
                self._hear()
                self._show(waiting)
                self._tidy(waiting)
        finally:
            for process in [*self._idle, *self._busy]:
                process.stop()

    def _start(self, waiting: list[Task]) -> None:
        while True:
            free = self._cores - sum(self._slots.values())
            ready = startable(waiting, self._rounds, self._tasks)
            if free < 1 or not ready:
                return
            task = ready[0]
            waiting.remove(task)
            workers = workers_for(free, len(ready), self._each)
            process = self._idle.pop() if self._idle else Process(self._told)
            self._busy[process] = task.name
            self._rounds[task.name], self._slots[task.name] = 0, workers
            process.give(self._order(task, workers, waiting))

    def _order(self, task: Task, workers: int, waiting: Sequence[Task]) -> dict[str, Any]:
        recipe = self._agenda.cells[task.name].recipe
        if recipe.engine.workers == "auto":
            engine = recipe.engine.model_copy(update={"workers": workers})
            recipe = recipe.model_copy(update={"engine": engine})
        return {
            "recipe": recipe.to_dict(),
            "path": str(self._out / task.name),
            "branches": str(self._out / BRANCHES),
            "result": str(self._results / f"{task.name}{SUFFIX}"),
            "wanted": wanted_by(task, waiting),
            "test_sha256": expected_test(self._agenda, self._agenda.cells[task.name]),
        }

    def _hear(self) -> None:
        process, told = self._told.get()
        name = self._busy.get(process)
        if name is None:  # a process that was idle died: nothing is lost
            self._idle = [other for other in self._idle if other is not process]
            return
        if "round" in told:
            self._rounds[name] = int(told["round"])
            if told.get("seconds"):
                self._seconds[self._tasks[name].kind] = told["seconds"] * self._slots[name]
        if "done" in told:
            self._end(process, name, f"Dice {told['done']:.4f}")
        elif "failed" in told:
            self.failed[name] = str(told["failed"])
            self._end(process, name, f"FAILED: {told['failed']}")
        elif "died" in told:
            why = f"its process ended with code {told['died']}"
            self.failed[name] = f"{why}; start the bench again to continue from there"
            self._end(process, name, f"FAILED: {why}", is_alive=False)

    def _end(self, process: Process, name: str, text: str, is_alive: bool = True) -> None:
        del self._busy[process], self._rounds[name], self._slots[name]
        if is_alive:
            self._idle.append(process)
        self._progress.finished(name, text)

    def _show(self, waiting: Sequence[Task]) -> None:
        seconds = left(waiting, self._rounds, self._tasks, self._seconds) / self._cores
        rounds = {name: f"round {n}/{self._tasks[name].rounds}" for name, n in self._rounds.items()}
        self._progress.under_way(rounds, seconds)

    def _tidy(self, waiting: Sequence[Task]) -> None:
        """Drop checkpoints of families that are complete."""
        alive = {task.family for task in waiting} | {self._tasks[n].family for n in self._rounds}
        for family in (self._out / BRANCHES).glob("*"):
            if family.name not in alive:
                shutil.rmtree(family, ignore_errors=True)


def times_of(agenda: Agenda) -> dict[str, float]:
    """Return core seconds per round by kind of run, from existing results of this grid."""
    found: dict[str, float] = {}
    for name in agenda.done:
        machine = agenda.known[agenda.cells[name].digest].machine
        workers = machine.get("workers")
        spent = float(machine.get("seconds_per_round") or 0)
        found[agenda.tasks[name].kind] = spent * (workers if isinstance(workers, int) else 1)
    return {kind: seconds for kind, seconds in found.items() if seconds > 0}


def expected_test(agenda: Agenda, cell: GridCell) -> str | None:
    """Return the hash of the test cases that results with the same data section were scored on."""
    for result in agenda.known.values():
        if result.recipe["data"] == cell.recipe.shared()["data"]:
            return result.hashes["test"]
    return None
