"""Which run is started next, and how much of the machine it gets: decisions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A run to do."""

    name: str
    family: str  # runs of one family may begin with each other's rounds
    shared: int  # the last round that it may take from another of its family
    rounds: int
    kind: str = ""  # runs of one kind take about the same time for a round


def order(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks family by family, the one with the longest shared beginning first.

    >>> [t.name for t in order([Task("a", "x", 3, 9), Task("b", "y", 0, 9), Task("c", "x", 8, 9)])]
    ['c', 'a', 'b']
    """
    place = {family: k for k, family in enumerate(dict.fromkeys(t.family for t in tasks))}
    return sorted(tasks, key=lambda task: (place[task.family], -task.shared))


def wanted_by(task: Task, others: Sequence[Task]) -> list[int]:
    """Return the rounds whose checkpoints others of the family wait for.

    >>> fedavg, late, early = Task("a", "x", 9, 10), Task("b", "x", 7, 10), Task("c", "x", 3, 10)
    >>> wanted_by(fedavg, [late, early]), wanted_by(early, [fedavg, late])
    ([3, 7], [])
    """
    rounds = {other.shared for other in others if other.family == task.family}
    return sorted(number for number in rounds if 0 < number <= task.shared)


def startable(
    waiting: Sequence[Task], running: Mapping[str, int], tasks: Mapping[str, Task]
) -> list[Task]:
    """Return the tasks that need not wait for another run of their family.

    ``running`` has the last round that each run under way has finished.
    """
    free: list[Task] = []
    for task in waiting:
        mates = [tasks[name] for name in running if tasks[name].family == task.family]
        # Somebody is on the way to this task's branch, or is about to set out.
        ahead = any(running[mate.name] < task.shared <= mate.shared for mate in mates)
        passed = any(running[mate.name] >= task.shared for mate in mates)
        next_to = any(o.family == task.family and task.shared <= o.shared for o in free)
        if not task.shared or passed or not (ahead or next_to):
            free.append(task)
    return free


def workers_for(free_cores: int, startable: int, wanted: int | None = None) -> int:
    """Return the cores of the next run: one, as long as there are enough runs for all cores.

    >>> workers_for(2, 5), workers_for(2, 1), workers_for(4, 3)
    (1, 2, 1)
    """
    if wanted is not None:
        return min(wanted, free_cores)
    return max(1, free_cores // max(startable, 1))


def left(
    waiting: Sequence[Task],
    running: Mapping[str, int],
    tasks: Mapping[str, Task],
    seconds: Mapping[str, float],
) -> float:
    """Return the core seconds that are left, by the seconds per round of each kind of run.

    Kinds that were not measured take the mean of the others.
    """
    usual = sum(seconds.values()) / len(seconds) if seconds else 0.0
    total = 0.0
    ran: dict[str, int] = {}
    for name, done in running.items():
        task = tasks[name]
        total += (task.rounds - done) * seconds.get(task.kind, usual)
        ran[task.family] = max(ran.get(task.family, 0), task.shared)
    for task in waiting:
        start = min(task.shared, ran.get(task.family, 0))
        ran[task.family] = max(ran.get(task.family, 0), task.shared)
        total += (task.rounds - start) * seconds.get(task.kind, usual)
    return total
