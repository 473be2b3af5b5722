"""Engine benchmarks as ratios in one run: a round, aggregation, memory, start of the command line.

Run: python benchmarks/bench_engine.py [--short]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

BARE = """
import sys, time
import numpy as np, torch
torch.set_num_threads(1)
from feda3i.models.unet import UNet
steps, size, start = int(sys.argv[1]), int(sys.argv[2]), sys.stdin
net = UNet(channels=3).to(memory_format=torch.channels_last)
adam = torch.optim.Adam(net.parameters(), lr=5e-3, betas=(0.9, 0.99), fused=True)
x = (255 * torch.rand(8, 3, size, size)).to(memory_format=torch.channels_last)
y = (torch.rand(8, 1, size, size) > 0.5).float()
def step():
    adam.zero_grad(set_to_none=True)
    torch.nn.functional.binary_cross_entropy_with_logits(net(x), y).backward()
    adam.step()
step()
print("ready", flush=True)
for line in start:
    began = time.perf_counter()
    for _ in range(steps):
        step()
    print(time.perf_counter() - began, flush=True)
"""


def bench_round(repeats: int) -> None:
    """Compare a local round with the same number of bare steps in as many processes."""
    from feda3i import recipe
    from feda3i.engine.console import Silent
    from feda3i.engine.loop import Round
    from feda3i.engine.run import job_of
    from feda3i.engine.transport import LocalTransport, one_thread
    from feda3i.pool import ENVIRONMENT
    from feda3i.simulation.federation import federation_of

    workers = 2
    made = recipe.load(
        None,
        [
            "data=synthetic-skin",
            *("data.sites=12", "data.cases=16", "data.test=1", "data.size=64"),
            *("train.epochs=2", f"engine.workers={workers}"),
        ],
    )
    steps = 12 * 2 * (16 // 8) // workers
    bare = [
        subprocess.Popen(
            [sys.executable, "-c", BARE, str(steps), "64"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )
        for _ in range(workers)
    ]
    for process in bare:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        federation = federation_of(made)
        job = job_of(made, federation)
        transport = LocalTransport(job, federation, Path(folder))
        server = job.server(transport.sites())
        rounds, bares = [], []
        for number in range(1, repeats + 2):
            began = time.perf_counter()
            Round(job, server, transport, number, Silent(), Path(folder)).run()
            rounds.append(time.perf_counter() - began)
            bares.append(_bare_time(bare))
        transport.close()
    for process in bare:
        process.kill()
    # The first round starts the workers; both sides leave it out and take their best.
    ours, floor = min(rounds[1:]), min(bares[1:])
    print(f"round, 12 sites x 16 cases x 2 epochs, 64 px, {workers} workers")
    print(f"  bare steps {floor:.2f} s, round {ours:.2f} s, ratio {ours / floor:.2f} (at most 1.1)")


def _bare_time(bare: list[subprocess.Popen[str]]) -> float:
    began = time.perf_counter()
    for process in bare:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in bare:
        assert process.stdout is not None
        process.stdout.readline()
    return time.perf_counter() - began


def bench_aggregate(repeats: int) -> None:
    """Compare the weighted sum of 50 networks with one read over the same bytes."""
    import numpy as np
    import torch

    from feda3i.core.aggregation import combine, fold
    from feda3i.core.layout import Layout
    from feda3i.engine.transport import one_thread
    from feda3i.models.stages import find_stages
    from feda3i.models.unet import UNet

    network = UNet(channels=3)
    layout = Layout.of(network, find_stages(network, torch.zeros(1, 3, 64, 64)))
    rows = np.random.default_rng(0).normal(size=(50, layout.size)).astype(np.float32)
    weights = np.full(50, 1 / 50)
    by_stage = np.full((50, len(layout.stages)), 1 / 50)
    spans = layout.spans()

    with one_thread():
        read = _best(lambda: rows.max(), repeats)
        per_site = _best(lambda: combine(rows, weights, spans), repeats)
        per_stage = _best(lambda: combine(rows, by_stage, spans), repeats)
        one_by_one = _best(lambda: fold(rows, weights.tolist()), repeats)
    print(f"aggregation, 50 sites x {layout.size:,} values, one read {1e3 * read:.1f} ms")
    print(f"  one buffer, per site  {1e3 * per_site:6.1f} ms, ratio {per_site / read:.2f} (1.3)")
    print(f"  one buffer, per stage {1e3 * per_stage:6.1f} ms, ratio {per_stage / read:.2f} (1.3)")
    print(f"  folded one by one     {1e3 * one_by_one:6.1f} ms, ratio {one_by_one / read:.2f} (3)")


def _best(call: object, repeats: int) -> float:
    assert callable(call)
    times = []
    for _ in range(3 * repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


MEMORY = """
import resource, sys, tempfile
from pathlib import Path
from feda3i import recipe
from feda3i.engine.run import run
sites = int(sys.argv[1])
made = recipe.load(None, ["rounds=1", "data=synthetic-skin", f"data.sites={sites}",
    f"data.cases={1000 // sites}", "data.test=8", "data.size=32", "model.width=16",
    "train.epochs=1", "engine.workers=1", "train.batch=1" if sites == 1000 else "train.batch=8"])
with tempfile.TemporaryDirectory() as folder:
    run(made, Path(folder) / "run")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def bench_memory() -> None:
    """Compare the peak memory of the same cases in 1,000 sites and in 50."""
    peak = {
        sites: float(
            subprocess.run(
                [sys.executable, "-c", MEMORY, str(sites)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for sites in (50, 1000)
    }
    print("peak memory, 1,000 cases of 32 px, U-Net of 1.08 M parameters, one round")
    print(
        f"  50 sites {peak[50]:.0f} MiB, 1,000 sites {peak[1000]:.0f} MiB, "
        f"ratio {peak[1000] / peak[50]:.2f} (at most 1.3)"
    )


def bench_help(repeats: int) -> None:
    """Compare ``feda3i --help`` with a bare Python that imports nothing."""

    def start(*arguments: str) -> float:
        command = [sys.executable, *arguments]
        return _best(lambda: subprocess.run(command, capture_output=True, check=True), repeats)

    bare, shown = start("-c", "pass"), start("-m", "feda3i", "--help")
    print(f"feda3i --help {shown:.2f} s (at most 0.5), bare Python {bare:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer repeats")
    repeats = 2 if parser.parse_args().short else 5
    bench_help(repeats)
    bench_aggregate(repeats)
    bench_round(repeats)
    bench_memory()


if __name__ == "__main__":
    main()
