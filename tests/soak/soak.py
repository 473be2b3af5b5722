"""``make soak``: kill the program wherever it hurts; every run must end with the same model.

    python tests/soak/soak.py [--seed N] [--scale X] [--only KIND ...]

Exit code 1 on any failure. Needs Linux; about ten minutes on two cores.
"""

import argparse
import contextlib
import hashlib
import importlib
import itertools
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
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # forks of a process with threads may hang

sys.path.insert(0, str(Path(__file__).parent))
from drive import Child, Plant, begin_anew, limit_files

import feda3i

Prepare = Callable[[], None] | None
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
        self.seconds: dict[tuple[str, Prepare], float] = {}

    def measure(self) -> None:
        """Run every recipe undisturbed, in each way to start it."""
        for name, prepare in itertools.product(self.recipes, (None, begin_anew)):
            path = self.folder / f"whole-{name}-{len(self.seconds)}"
            started = time.monotonic()
            if self.start(name, path, prepare).wait():
                raise SystemExit(f"an undisturbed run failed:\n{self.said(path)}")
            self.seconds[name, prepare] = time.monotonic() - started
            sha = (path / "DONE").read_text("utf-8").strip()
            if self.sha.setdefault(name, sha) != sha:
                raise SystemExit("two undisturbed runs differ")

    def start(self, name: str, path: Path, prepare: Prepare = None, *more: str) -> Child:
        """Start what a user would type next: ``resume`` if there is a run, else ``run``."""
        command = ["resume", str(path), "--quiet", *more]
        if not (path / "manifest.json").exists():
            command = ["run", "demo", *RECIPES[name], *more, "--out", str(path), "--quiet"]
        return Child(command, path.with_name(f"{path.name}.log"), prepare)

    def said(self, path: Path) -> str:
        return path.with_name(f"{path.name}.log").read_text("utf-8", errors="replace")

    def fail(self, text: str) -> None:
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

    def harm(self, kind: str, runs: int) -> None:
        """Harm some runs in one way, and bring each to its end."""
        for number in range(runs):
            name = "noise" if kind == "workers" else self.rng.choice(self.recipes)
            path = self.folder / f"{kind}-{number}"
            HARMS[kind](self, name, path, number)
            self.end(kind, name, path)

    def at_random(self, name: str, path: Path, number: int, prepare: Prepare = None) -> None:
        """Kill at random moments, up to three times in a run; half of them early in it."""
        for _ in range(self.rng.randint(1, 3)):
            child = self.start(name, path, prepare)
            most = self.seconds[name, prepare] * self.rng.choice((0.3, 1.0))
            time.sleep(self.rng.uniform(0, most))
            self.kills["random" if prepare is None else "process"] += child.is_killed()

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
        died = self.start(name, path, plant.install).wait() == -signal.SIGKILL
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
            self.start(name, source, plant.install).wait()
        shutil.copytree(source, path)

    def workers(self, name: str, path: Path, number: int) -> None:
        """Kill a worker process, or the server while its workers work."""
        child = self.start(name, path, None, "engine.workers=2")
        time.sleep(self.rng.uniform(0.5, 1.5) * self.seconds[name, begin_anew])
        victims = _children(child.pid) if number % 2 == 0 else []
        if victims:
            os.kill(self.rng.choice(victims), signal.SIGKILL)
        self.kills["workers"] += child.wait() == 1 if victims else child.is_killed()

    def full_disk(self, name: str, path: Path, number: int) -> None:
        """Run out of space: no file may grow beyond a limit."""
        limit = limit_files(int(2 ** self.rng.uniform(6, 18)))
        self._refused("disk", path, self.start(name, path, limit).wait())

    def two_at_once(self, name: str, path: Path, number: int) -> None:
        """Start two processes on one folder: one works, the other is told so."""
        if number % 2:
            self._break_off(name, path)
        pair = [self.start(name, path) for _ in range(2)]
        codes = sorted(child.wait() for child in pair)
        if codes[0] != 0:
            self.fail(f"two: {path.name}: exit codes {codes}")
        self._refused("two", path, codes[1])

    def _refused(self, kind: str, path: Path, code: int) -> None:
        """Note as a failure anything but success or an error of ours."""
        text = self.said(path)
        if code not in (0, 1) or "Traceback" in text or "bug" in text:
            self.fail(f"{kind}: {path.name}: exit code {code}\n{text[-600:]}")


def _children(pid: int | None) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]
    return []


HARMS: dict[str, Callable[..., None]] = {
    "random": Soak.at_random,
    "process": partial(Soak.at_random, prepare=begin_anew),
    "workers": Soak.workers,
    "disk": Soak.full_disk,
    "two": Soak.two_at_once,
}
RUNS = {"random": 60, "process": 40, "workers": 8, "disk": 12, "two": 12}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="more or less of everything")
    parser.add_argument(
        "--only", choices=("planted", *RUNS), action="append", help="some kinds of harm"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="feda3i-soak-"))
    soak, started = Soak(folder, options.seed, tuple(RECIPES)), time.monotonic()
    try:
        warm_up()
        soak.measure()
        for kind in options.only or ("planted", *RUNS):
            if kind == "planted":
                soak.planted(min(1.0, options.scale))
            else:
                soak.harm(kind, max(1, round(RUNS[kind] * options.scale)))
    except KeyboardInterrupt:
        soak.fail("interrupted")
    for kind in soak.runs:
        print(f"{kind:20} {soak.runs[kind]:5} runs {soak.kills[kind]:5} kills")
    runs, kills, failures = soak.runs.total(), soak.kills.total(), len(soak.failures)
    print(f"{runs} runs, {kills} kills, {failures} failures, {time.monotonic() - started:.0f} s")
    if soak.failures:
        print(f"what is left lies in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
