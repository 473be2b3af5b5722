"""``make soak``: kill the program wherever it hurts; every run must end with the same model.

After each kind of harm, ``resume`` (or ``run``, if there is no run yet) must end with the model of
an undisturbed run.

    python tests/soak/soak.py [--seed N] [--scale X] [--only KIND ...]

Prints counts; exit code 1 on any failure. Needs Linux; about ten minutes on two cores.
"""

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # forks of a process with threads may hang

sys.path.insert(0, str(Path(__file__).parent))
from drive import Child, Plant, Process, limit_files

import feda3i

ROUNDS = 3
TINY = ("data=synthetic-skin", "data.sites=2", "data.cases=2", "data.test=2", "data.size=32")
TINY += ("model.width=4", "train.epochs=1", f"rounds={ROUNDS}", "engine.workers=1")
RECIPES = {
    "noise": (*TINY, "method=feda3i", "method.t1=1"),
    "memory": (*TINY, "method=elr", "noise=none"),
}


def problems_of(path: Path, sha256: str) -> list[str]:
    """Return what is wrong with the folder of a run that came to its end."""
    if not (path / "DONE").is_file():
        return ["it is not done"]
    found = []
    done = (path / "DONE").read_text("utf-8").strip()
    model = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()
    if not done == model == sha256:
        found.append(f"another model: DONE {done[:12]}, file {model[:12]}, expected {sha256[:12]}")
    try:
        events = list(map(json.loads, (path / "events.jsonl").read_text("utf-8").splitlines()))
    except ValueError as error:
        return [*found, f"the event log is damaged: {error}"]
    rounds = [event["round"] for event in events if event["event"] == "round"]
    if rounds != list(range(1, ROUNDS + 1)) or [e["event"] for e in events].count("start") != 1:
        found.append(f"the event log tells rounds {rounds}")
    left = [p.name for p in path.rglob("*") if re.search(r"^cache$|^\.part-|\.tmp", p.name)]
    return found + ([f"left over: {', '.join(left)}"] if left else [])


def warm_up() -> None:
    """Import here what a run may import, so that forks start with it; nothing runs here."""
    for module in pkgutil.walk_packages(feda3i.__path__, "feda3i."):
        if not module.name.startswith(("feda3i.flower", "feda3i.__main__")):
            with contextlib.suppress(ImportError):  # of an extra
                importlib.import_module(module.name)
    if threading.active_count() > 1:
        raise SystemExit("a fork would be unsafe: an import started a thread")


class Soak:
    """Harm runs in all ways, count, and remember what failed."""

    def __init__(self, folder: Path, seed: int, recipes: tuple[str, ...]) -> None:
        self.folder, self.recipes = folder, recipes
        self.rng = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()
        self.failures: list[str] = []
        self.sha: dict[str, str] = {}
        self.seconds: dict[str, float] = {}

    def measure(self, kinds: tuple[type[Child], ...]) -> None:
        """Run every recipe undisturbed, in each way to start it."""
        for name in self.recipes:
            for kind in kinds:
                path = self.folder / f"whole-{name}-{kind.__name__}"
                started = time.monotonic()
                if self.start(name, path, kind).wait():
                    raise SystemExit(f"an undisturbed run failed:\n{self.said(path)}")
                self.seconds[f"{name} {kind.__name__}"] = time.monotonic() - started
                sha = (path / "DONE").read_text("utf-8").strip()
                if self.sha.setdefault(name, sha) != sha:
                    raise SystemExit("two undisturbed runs differ")

    def start(self, name: str, path: Path, kind: Callable[..., Child] = Child, *more: Any) -> Child:
        """Start what a user would type next: ``resume`` if there is a run, else ``run``."""
        command = ["resume", str(path), "--quiet"]
        if not (path / "manifest.json").exists():
            command = ["run", "demo", *RECIPES[name], "--out", str(path), "--quiet"]
        return kind(command, path.with_name(f"{path.name}.log"), *more)

    def said(self, path: Path) -> str:
        """Return the output of a run."""
        return path.with_name(f"{path.name}.log").read_text("utf-8", errors="replace")

    def fail(self, text: str) -> None:
        """Note and print a failure."""
        self.failures.append(text)
        print(f"FAILED {text}", flush=True)

    def end(self, kind: str, name: str, path: Path) -> None:
        """Bring a harmed run to its end and look at it."""
        self.runs[kind] += 1
        try:
            code = self.start(name, path).wait()
            found = [f"exit code {code}"] if code else problems_of(path, self.sha[name])
        except (OSError, KeyError, TimeoutError) as error:
            found = [repr(error)]
        if found:
            self.fail(f"{kind}: {path.name}: {'; '.join(found)}\n{self.said(path)[-600:]}")
        elif path.exists():
            shutil.rmtree(path)

    # -- kinds of harm ----------------------------------------------------------------------------

    def at_random(self, kind: str, start: type[Child], runs: int) -> None:
        """Kill at random moments, up to three times in a run; half of them early in it."""
        for number in range(runs):
            name = self.rng.choice(self.recipes)
            path = self.folder / f"{kind.replace(' ', '-')}-{number}"
            for _ in range(self.rng.randint(1, 3)):
                child = self.start(name, path, start)
                most = self.seconds[f"{name} {start.__name__}"] * self.rng.choice((0.3, 1.0))
                time.sleep(self.rng.uniform(0, most))
                self.kills[kind] += child.kill()
            self.end(kind, name, path)

    def planted(self, share: float) -> None:
        """Kill at each step that changes the disk, in ``run`` and then in ``resume``."""
        for name in self.recipes:
            for kind in ("planted in run", "planted in resume"):
                steps = self._steps(kind, name, 10**9)
                wanted = max(1, round(len(steps) * share))
                for step in sorted(self.rng.sample(range(len(steps)), wanted)):
                    self._steps(kind, name, step, steps[step])

    def _steps(self, kind: str, name: str, die_at: int, label: str = "") -> list[str]:
        """Die at a step; without one to die at, return the labels of all."""
        path = self.folder / f"{kind.replace(' ', '-')}-{name}-{die_at}"
        notes = path.with_name(f"{path.name}.steps")
        if kind == "planted in resume":
            self._break_off(name, path)
        plant = Plant(path, die_at, notes)
        died = self.start(name, path, Child, plant.install).wait() == -signal.SIGKILL
        if label:
            self.kills[kind] += died
            if not died:
                self.fail(f"{kind}: {name}: never came to step {die_at} ({label})")
        self.end(kind, name, path)
        return notes.read_text("utf-8").splitlines()

    def _break_off(self, name: str, path: Path) -> None:
        """Leave a run in its first round, with half a line at the end of its log."""
        source = self.folder / f"broken-{name}"
        if not source.exists():
            labels = self._steps("planted in run", name, 10**9)
            plant = Plant(source, labels.index("event round"))
            self.start(name, source, Child, plant.install).wait()
        shutil.copytree(source, path)

    def workers(self, runs: int) -> None:
        """Kill a worker process, or the server while its workers work."""
        for number in range(runs):
            path = self.folder / f"workers-{number}"
            child = self.start("noise", path, lambda c, log: Child([*c, "engine.workers=2"], log))
            time.sleep(self.rng.uniform(0.5, 1.5) * self.seconds["noise Process"])
            victims = _children(child.pid) if number % 2 == 0 else []
            if victims:
                os.kill(self.rng.choice(victims), signal.SIGKILL)
                self.kills["workers"] += child.wait() == 1
            else:
                self.kills["workers"] += child.kill()
            self.end("workers", "noise", path)

    def full_disks(self, runs: int) -> None:
        """Run out of space: no file may grow beyond a limit."""
        for number in range(runs):
            name = self.rng.choice(self.recipes)
            path = self.folder / f"limit-{number}"
            limit = limit_files(int(2 ** self.rng.uniform(6, 18)))
            code = self.start(name, path, Child, limit).wait()
            self._refused("full disk", path, code)
            self.end("full disk", name, path)

    def _refused(self, kind: str, path: Path, code: int) -> None:
        """Note as a failure anything but success or an error of ours."""
        text = self.said(path)
        if code not in (0, 1) or "Traceback" in text or "bug" in text:
            self.fail(f"{kind}: {path.name}: exit code {code}\n{text[-600:]}")

    def two_at_once(self, runs: int) -> None:
        """Start two processes on one folder: one works, the other is told so."""
        for number in range(runs):
            name = self.rng.choice(self.recipes)
            path = self.folder / f"two-{number}"
            if number % 2:
                self._break_off(name, path)
            pair = [self.start(name, path) for _ in range(2)]
            codes = sorted(child.wait() for child in pair)
            if codes not in ([0, 0], [0, 1]):
                self.fail(f"two at once: {path.name}: exit codes {codes}")
            self._refused("two at once", path, codes[1])
            self.end("two at once", name, path)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]
    return []


KINDS = {
    "planted": lambda soak, scale: soak.planted(min(1.0, scale)),
    "random": lambda soak, scale: soak.at_random("random", Child, _count(60 * scale)),
    "process": lambda soak, scale: soak.at_random("process", Process, _count(40 * scale)),
    "workers": lambda soak, scale: soak.workers(_count(8 * scale)),
    "disk": lambda soak, scale: soak.full_disks(_count(12 * scale)),
    "two": lambda soak, scale: soak.two_at_once(_count(12 * scale)),
}


def _count(number: float) -> int:
    return max(1, round(number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="more or less of everything")
    parser.add_argument("--only", choices=KINDS, action="append", help="some kinds of harm")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="feda3i-soak-"))
    soak = Soak(folder, options.seed, tuple(RECIPES))
    started = time.monotonic()
    kinds = options.only or list(KINDS)
    try:
        warm_up()
        soak.measure((Child, Process) if {"process", "workers"} & set(kinds) else (Child,))
        for kind in kinds:
            KINDS[kind](soak, options.scale)
    except KeyboardInterrupt:
        soak.fail("interrupted")
    for kind in sorted({*soak.runs, *soak.kills}):
        print(f"{kind:20} {soak.runs[kind]:5} runs {soak.kills[kind]:5} kills")
    print(
        f"{sum(soak.runs.values())} runs, {sum(soak.kills.values())} kills, "
        f"{len(soak.failures)} failures, {time.monotonic() - started:.0f} s"
    )
    if soak.failures:
        print(f"what is left lies in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
