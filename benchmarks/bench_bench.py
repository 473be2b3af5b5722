"""What a bench costs beyond its runs, and whether runs side by side beat workers within a run.

Processor seconds do not see other work on the machine; for wall times it should have none.

Run: python benchmarks/bench_bench.py [--short]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from feda3i.bench.conduct import cores

GRID = """
title = "short runs"
rows = ["fedavg", "gce", "sce", "fedprox"]
set = [
    "data.size=48", "data.sites={sites}", "data.cases=16", "data.test=32", "model.width=8",
    "train.epochs=3", "train.batch=4", "rounds={rounds}", "evaluate.every=1",
]
[settings]
"SKIN N_S" = {{ recipe = "skin_ns-small", data = "skin" }}
"""
LIMIT = 1.10


class Times(NamedTuple):
    """Seconds on the clock, and of all processors together."""

    wall: float
    used: float

    def over(self, other: Times) -> str:
        """Return both ratios."""
        return f"{self.used / other.used:.2f} processor, {self.wall / other.wall:.2f} wall"


def seconds(*arguments: str) -> Times:
    """Return what a command takes, its own processes included."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "feda3i", *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Times(wall, used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a minute instead of several")
    short = parser.parse_args().short
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        grid = folder / "short.toml"
        grid.write_text(GRID.format(sites=4 if short else 12, rounds=4 if short else 10))
        measure(folder, grid)


def measure(folder: Path, grid: Path) -> None:
    """Print the ratios."""
    from feda3i.bench.grid import expand, load_grid

    def bench(name: str, *options: str) -> Times:
        places = ("--out", str(folder / name), "--results", str(folder / f"{name}-results"))
        return seconds("bench", str(grid), *places, *options)

    alone = Times(0.0, 0.0)
    for number, cell in enumerate(expand(load_grid(str(grid)))):
        path = folder / f"{number}.toml"
        path.write_text(cell.recipe.to_toml())
        one = seconds("run", str(path), "engine.workers=1", "--out", str(folder / f"run{number}"))
        alone = Times(alone.wall + one.wall, alone.used + one.used)
    after = bench("after", "--jobs", "1", "engine.workers=1")
    within = bench("within", "--jobs", "1")
    beside = bench("beside")
    print(f"a bench, run after run / its runs by feda3i run: {after.over(alone)} (limit {LIMIT})")
    count = cores()
    print(f"{count} runs side by side / run after run with {count} workers: {beside.over(within)}")


if __name__ == "__main__":
    main()
