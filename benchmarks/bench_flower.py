"""What a round costs over the network, against the same round on the local engine.

Run: python benchmarks/bench_flower.py [nodes ...]   (default: 4). All nodes run on this machine,
so that N Python processes share its cores; real sites have their own. One thread per process.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from feda3i.deploy.control import Control
from feda3i.deploy.processes import Consortium
from feda3i.deploy.trial import recipe_of
from feda3i.engine.run import run
from feda3i.log.events import read_events
from feda3i.recipe import Recipe, validate

ROUNDS = 3


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


def watch(consortium: Consortium, site: str) -> None:
    """Put a clock around the process that Flower starts for every message."""
    command = consortium.folder / "sites" / site / "bin" / "flwr-clientapp"
    command.write_text(
        "#!/bin/bash\nTIMEFORMAT='%R %U %S'\n"
        '{ time python3 -m feda3i.flower.guard site flwr-clientapp "$@" 2>&3; } '
        f"3>&2 2>> {consortium.folder}/{site}.times\n"
    )


def processes(consortium: Consortium) -> tuple[float, float]:
    """Return the seconds of a site's process for a fit, on the clock and of CPU time (medians)."""
    clock, used = [], []
    for site in consortium.sites:
        lines = (consortium.folder / f"{site}.times").read_text().splitlines()
        for line in lines[2 : ROUNDS + 1]:  # after hello and the first round
            real, user, system = (float(part) for part in line.split())
            clock.append(real)
            used.append(user + system)
    return statistics.median(clock), statistics.median(used)


def bench(nodes: int, folder: Path) -> None:
    plan = recipe(nodes)
    names = [f"site-{k + 1:02d}" for k in range(nodes)]
    with Consortium(folder / "network", names) as consortium:
        consortium.start_server()
        for name in names:
            watch(consortium, name)
            consortium.start_site(name)
        number = consortium.start_run(plan, "bench")
        with Control(consortium.server) as control:
            for _ in control.follow(number, consortium.runs / "bench", pause=1.0):
                pass
            status = control.status(number)
        process, used = processes(consortium)
    local = run(plan, folder / "local")
    model = (local.path / "model.safetensors").stat().st_size
    network, work = seconds_of_rounds(folder / "network" / "runs" / "bench")
    here, _ = seconds_of_rounds(local.path)
    same = (folder / "network" / "runs" / "bench" / "DONE").read_text().strip() == local.sha256
    print(f"{nodes} nodes, {model / 1e6:.2f} MB model, same model as local: {same}")
    print(f"  round over the network     {network:7.2f} s")
    print(f"  round on the local engine  {here:7.2f} s   overhead {network - here:.2f} s, of that")
    print(f"    a site's process         {process:7.2f} s   (Flower starts one per message)")
    print(f"      of that work           {work:7.2f} s   (slowest site, first use of torch)")
    print(f"    polls, transfer, queue   {network - process:7.2f} s   (an idle node sleeps 3 s)")
    cores = len(os.sched_getaffinity(0))
    print(f"  CPU time of a process      {used:7.2f} s   so {nodes} on {cores} cores need", end=" ")
    print(f"{used * nodes / cores:.2f} s; sites on machines of their own do not queue")
    # Every round sends and gets the model; at the end it is sent once more to be scored.
    sent, received = status.bytes_sent / (ROUNDS + 1), status.bytes_received / ROUNDS
    print(f"  bytes per message / model: to sites {sent / nodes / model:.4f}", end="  ")
    print(f"from sites {received / nodes / model:.4f}", flush=True)


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [4]:
        with tempfile.TemporaryDirectory(prefix="feda3i-bench-") as place:
            bench(count, Path(place))
