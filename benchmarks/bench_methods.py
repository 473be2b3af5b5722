"""What each method costs against FedAvg: time, bytes up and down, memory at a site.

Each method is played in a process of its own, next to FedAvg, on the same cases with one thread;
times are CPU seconds. A method with phases is cut short so that every phase appears, and its rounds
are then weighed as in a run of 100 rounds with its default settings.

Run: python benchmarks/bench_methods.py [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from feda3i.core.messages import Missing, Order, Reply
from feda3i.core.trees import pack
from feda3i.engine.console import Silent
from feda3i.engine.loop import Round
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.methods import REGISTRY
from feda3i.simulation.views import as_trained

SITES, CASES, SIZE, EPOCHS = 4, 8, 64, 5
REPEATS = 2
LIMIT = 1.3
FREE = 0.1
"""Time at the server that needs no explanation, in rounds of FedAvg: these rounds are short."""


@dataclass(frozen=True)
class Expected:
    """The expected cost of a method in units of FedAvg, and how to see all its phases."""

    train: float = 1.0
    evaluations: float = 0.0
    """Predictions of all of a site's cases per round, on average over 100 rounds."""
    passes: float = 0.0
    """Forward passes at the server per site and round."""
    up: float = 1.0
    down: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: Mapping[int, int] = field(default_factory=lambda: {1: 1, 2: 99})
    """Round played here -> rounds of a run of 100 that it stands for."""
    words: str = "1 x"


EXPECTED = {
    "adele": Expected(
        3.74,
        1.0,
        options={"points": 2, "r": 0.1},
        rounds={1: 20, 2: 1, 4: 79},
        words="3.7 x + evaluation",
    ),
    "elr": Expected(words="1 x, memory"),
    "feda3i": Expected(
        evaluations=0.01,
        options={"t1": 1},
        rounds={1: 10, 2: 1, 3: 89},
        words="1 x + one evaluation",
    ),
    "fedcorr": Expected(
        evaluations=0.03, options={"t1": 1, "t2": 1}, rounds={1: 2, 2: 8, 3: 1, 4: 89}
    ),
    "feddm": Expected(
        2.0,
        passes=100.0,
        down=3.0,
        options={"stop": 2},
        rounds={1: 1, 2: 1, 3: 98},
        words="2 x; server: 100 probe passes per site",
    ),
    "fednoro": Expected(
        1.15,
        evaluations=0.01,
        options={"s1": 1, "end": 3},
        rounds={1: 10, 2: 1, 3: 89},
        words="1 x clean, 1.3 x noisy",
    ),
    "local": Expected(down=2.0),
    "rmd": Expected(
        4.0, up=2.0, down=2.0, options={"warp_from": 2}, rounds={1: 10, 3: 90}, words="4 x"
    ),
}


class Measuring(LocalTransport):
    """Take the CPU time and the bytes of every order and its reply."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seconds: dict[int, float] = {}
        self.bytes: dict[int, list[tuple[int, int]]] = {}

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield the answers, one order after the other."""
        for order in orders:
            began = time.process_time()
            (answer,) = super().call([order])
            took = time.process_time() - began
            assert isinstance(answer, Reply), answer
            self.seconds[order.round] = self.seconds.get(order.round, 0.0) + took
            size = len(pack(vars(order))), len(pack({**vars(answer), "seconds": 0.0}))
            self.bytes.setdefault(order.round, []).append(size)
            yield answer


@dataclass
class Play:
    """What a few rounds of a method cost, by round."""

    site: dict[int, float]
    server: dict[int, float]
    down: dict[int, float]
    up: dict[int, float]
    kept: int


def federation_for() -> Any:
    """Return sites of which half draw too large by some pixels, so that noise can be found."""
    import cv2
    import numpy as np

    from feda3i.synthetic.federations import synthetic_skin

    made = synthetic_skin(sites=SITES, cases=CASES, test=1, size=SIZE)
    masks, kernel = made.train.masks.copy(), np.ones((9, 9), np.uint8)
    for name in made.names()[: SITES // 2]:
        for i in made.sites[name]:
            masks[i] = cv2.dilate(masks[i], kernel)
    return made.with_masks(masks)


def play(name: str, options: Mapping[str, Any], rounds: int, federation: Any) -> Play:
    """Play some rounds of a method."""
    from feda3i.recipe import validate

    recipe = validate(
        {
            "rounds": rounds,
            "data": {"name": "synthetic-skin"},
            "model": {"name": "unet", "width": 8, "momentum": 0.3},
            "method": {"name": name, **options},
            "train": {"epochs": EPOCHS},
            "engine": {"workers": 1, "device": "cpu"},
        }
    )
    job = job_of(recipe, federation)
    server_time = {}
    with tempfile.TemporaryDirectory() as folder:
        transport = Measuring(job, as_trained(federation, job.recipe.method.name), Path(folder))
        server = job.server(transport.sites())
        job.method.start(server)
        for number in range(1, rounds + 1):
            began = time.process_time()
            Round(job, server, transport, number, Silent(), Path(folder)).run()
            server_time[number] = time.process_time() - began - transport.seconds[number]
        files = [file.stat().st_size for file in Path(folder).glob("memory/*.memory")]
    sites = len(transport.sites())
    return Play(
        site=transport.seconds,
        server=server_time,
        down={n: sum(d for d, _ in sizes) / sites for n, sizes in transport.bytes.items()},
        up={n: sum(u for _, u in sizes) / sites for n, sizes in transport.bytes.items()},
        kept=max(files, default=0),
    )


def measure(name: str) -> dict[str, Any]:
    """Return the costs of a method and of FedAvg, measured in turn in this process."""
    import sklearn.mixture  # noqa: F401  # imports are no part of a round

    expected = EXPECTED.get(name, Expected())
    federation = federation_for()
    with one_thread():
        play("fedavg", {}, 1, federation)  # torch loads parts of itself in the first step
        plays, references, peaks = [], [], []
        for _ in range(REPEATS):
            references.append(play("fedavg", {}, 2, federation))
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            plays.append(play(name, expected.options, max(expected.rounds), federation))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        evaluation = evaluation_time(federation)
    unit = min(seconds for reference in references for seconds in reference.site.values())
    total = sum(expected.rounds.values())

    def over_run(values: list[dict[int, float]]) -> float:
        return sum(w * min(v[n] for v in values) for n, w in expected.rounds.items()) / total

    site = [one.site for one in plays]
    return {
        "mean": over_run(site) / unit,
        "dearest": max(min(s[n] for s in site) for n in expected.rounds) / unit,
        "expected": expected.train + expected.evaluations * evaluation / unit,
        "up": over_run([one.up for one in plays]),
        "down": over_run([one.down for one in plays]),
        "up_ratio": over_run([one.up for one in plays]) / references[0].up[1],
        "down_ratio": over_run([one.down for one in plays]) / references[0].down[1],
        "server": over_run([one.server for one in plays]) / unit,
        "expected_server": expected.passes * evaluation / CASES / unit,
        "kept": plays[0].kept,
        "peak": (peaks[-1] - peaks[0]) / 1024,
        "base": peaks[0] / 1024,
    }


def evaluation_time(federation: Any) -> float:
    """Return the CPU seconds of one prediction of all sites' cases."""
    from feda3i.engine.host import SiteHost
    from feda3i.recipe import validate

    recipe = validate({"model": {"name": "unet", "width": 8}, "engine": {"device": "cpu"}})
    job = job_of(recipe, federation)
    station = SiteHost(job, federation.train, federation.sites, Path())
    params = station.job.initial
    times = []
    for _ in range(3):
        began = time.process_time()
        station.predictor.probabilities(federation.train.images, params)
        times.append(time.process_time() - began)
    return min(times)


def show(rows: Mapping[str, Mapping[str, Any]]) -> int:
    """Print the table; return how many methods cost more than they may."""
    print(
        f"{SITES} sites x {CASES} cases x {EPOCHS} epochs, {SIZE} px, U-Net of width 8, one thread;"
        f" time in rounds of FedAvg, at most {LIMIT} x the expectation\n"
    )
    print(
        "| method | time | expected | within | dearest round | at the server (expected) "
        "| up, KiB per site | x | down, KiB per site | x | kept at a site, KiB | peak, MiB |"
    )
    print("|---|--:|:--|:-:|--:|--:|--:|--:|--:|--:|--:|--:|")
    over = 0
    for name, row in rows.items():
        expected = EXPECTED.get(name, Expected())
        bad = [
            row["mean"] > LIMIT * row["expected"],
            row["server"] > LIMIT * (row["expected_server"] + FREE),
            row["up_ratio"] > LIMIT * expected.up,
            row["down_ratio"] > LIMIT * expected.down,
        ]
        over += any(bad)
        print(
            f"| {name} | {row['mean']:.2f} | {row['expected']:.2f} ({expected.words}) "
            f"| {'NO' if any(bad) else 'yes'} | {row['dearest']:.2f} "
            f"| {row['server']:.2f} ({row['expected_server']:.2f}) "
            f"| {row['up'] / 1024:.0f} | {row['up_ratio']:.2f} "
            f"| {row['down'] / 1024:.0f} | {row['down_ratio']:.2f} "
            f"| {row['kept'] / 1024:.0f} | +{row['peak']:.0f} |"
        )
    return over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="methods; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one)))
        return
    rows = {}
    for name in chosen.names or REGISTRY.names():
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        rows[name] = json.loads(done.stdout.splitlines()[-1])
    sys.exit(1 if show(rows) else 0)


if __name__ == "__main__":
    main()
