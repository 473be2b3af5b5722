"""What a round costs over the network, against the same round on the local engine.

Run: python benchmarks/bench_flower.py [nodes ...]   (default: 4). All nodes run on this machine,
so that N Python processes share its cores; real sites have their own. One thread per process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from feda3i.engine.run import run
from feda3i.flower.demo import recipe_of
from feda3i.flower.processes import Consortium
from feda3i.recipe import Recipe, validate
from feda3i.report.events import read_events

ROUNDS = 4
NODE_SLEEP = 3.0
"""Seconds that an idle SuperNode sleeps between two looks for a message (flwr 1.41)."""


def recipe(nodes: int) -> Recipe:
    values = recipe_of(nodes, "fedavg", ROUNDS).to_dict()
    values["model"] = {"name": "unet", "width": 16}  # the paper's network, 4.3 MB
    values["data"].update(size=32, cases=4, test=4)
    values["engine"]["deadline"] = 900
    return validate(values)


def seconds_of_rounds(folder: Path) -> tuple[float, float]:
    """Return the median seconds of a round, and of the slowest site's work in it."""
    events = list(read_events(folder / "events.jsonl", "round"))[1:]
    rounds = statistics.median(event["seconds"] for event in events)
    work = statistics.median(max(event["site_seconds"].values()) for event in events)
    return rounds, work


def seconds_to_start(nodes: int) -> float:
    """Return how long it takes to start as many processes at once as there are nodes."""
    code = "import flwr.supernode.cli, feda3i.flower.client_app"
    begin = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(nodes)]
    for process in started:
        process.wait()
    return time.perf_counter() - begin


def bench(nodes: int, folder: Path) -> None:
    plan = recipe(nodes)
    names = [f"site-{k + 1:02d}" for k in range(nodes)]
    with Consortium(folder / "network", names) as consortium:
        consortium.start_server()
        for name in names:
            consortium.start_site(name)
        status = consortium.wait_run(consortium.start_run(plan, "bench"), 3600)
    local = run(plan, folder / "local")
    model = (local.path / "model.safetensors").stat().st_size
    network, work = seconds_of_rounds(folder / "network" / "runs" / "bench")
    here, _ = seconds_of_rounds(local.path)
    start = seconds_to_start(nodes)
    poll = NODE_SLEEP * nodes / (nodes + 1)  # the longest of N even draws from 0 to 3 s
    rest = network - work - start - poll
    same = (folder / "network" / "runs" / "bench" / "DONE").read_text().strip() == local.sha256
    print(f"{nodes} nodes, {model / 1e6:.2f} MB model, same model as local: {same}")
    print(f"  round over the network     {network:7.2f} s")
    print(f"  round on the local engine  {here:7.2f} s   overhead {network - here:.2f} s")
    print(f"    starting {nodes} processes     {start:7.2f} s   (Flower runs one per message)")
    print(
        f"    nodes asleep             {poll:7.2f} s   (expected, {NODE_SLEEP:.0f} s between looks)"
    )
    print(f"    slowest site's work      {work:7.2f} s   (first use of torch included)")
    print(f"    transfer and other polls {rest:7.2f} s")
    # Every round sends and gets the model; at the end it is sent once more to be scored.
    sent, received = status.bytes_sent / (ROUNDS + 1), status.bytes_received / ROUNDS
    print(f"  bytes per message / model: to sites {sent / nodes / model:.4f}", end="  ")
    print(f"from sites {received / nodes / model:.4f}", flush=True)


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [4]:
        with tempfile.TemporaryDirectory(prefix="feda3i-bench-") as place:
            bench(count, Path(place))
