"""What a round costs over the network, against the same round on the local engine.

Run: python benchmarks/bench_flower.py [nodes ...]   (default: 4). All nodes run on this machine,
so that N nodes and the server share its cores; real sites have their own. One thread per process.

CPU time is that of all processes of all sites between the end of round 1 and the end of the last
round: of those that stand by all the time (they poll), and of those that answer messages.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from feda3i.engine.events import read_events
from feda3i.engine.run import run
from feda3i.flower import deploy_control as control
from feda3i.flower.deploy_demo import Consortium, recipe_of
from feda3i.recipe import Recipe, validate

ROUNDS = 6
TICK = os.sysconf("SC_CLK_TCK")


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


def cpu_seconds(folder: Path) -> tuple[dict[int, float], float]:
    """Return what each process of a folder has used by itself, and what ended ones have used."""
    own, ended = {}, 0.0
    marker = f"FLWR_HOME={folder}".encode()
    sessions = set()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if marker in (entry / "environ").read_bytes():
                sessions.add(fields[3])
        except OSError:
            continue  # it has ended, or belongs to someone else
        found.append((int(entry.name), fields))
    for number, fields in found:
        if fields[3] in sessions:  # zombies, too: they have no environment
            user, system, children, of_children = (int(field) / TICK for field in fields[11:15])
            own[number] = user + system
            ended += children + of_children
    return own, ended


def bench(nodes: int, folder: Path) -> None:
    plan = recipe(nodes)
    names = [f"site-{k + 1:02d}" for k in range(nodes)]
    snapshots, server = [], []
    with Consortium(folder / "network", names) as consortium:
        consortium.start_server()
        for name in names:
            consortium.start_site(name)
        number = consortium.start_run(plan, "bench")
        for event in control.follow(consortium.server, number, consortium.runs / "bench"):
            if event["round"] in (1, ROUNDS):
                snapshots.append(cpu_seconds(consortium.folder / "sites"))
                own, ended = cpu_seconds(consortium.server)
                server.append(sum(own.values()) + ended)
    local = run(plan, folder / "local")
    model = (local.path / "model.safetensors").stat().st_size
    network, work = seconds_of_rounds(folder / "network" / "runs" / "bench")
    here, alone = seconds_of_rounds(local.path)
    same = (folder / "network" / "runs" / "bench" / "DONE").read_text().strip() == local.sha256
    (before, ended_before), (after, ended_after) = snapshots
    messages = nodes * (ROUNDS - 1)
    standing = sum(after[n] - before[n] for n in before if n in after)
    answering = ended_after - ended_before + sum(after[n] for n in after if n not in before)
    print(f"{nodes} nodes, {model / 1e6:.2f} MB model, same model as local: {same}")
    print(f"  round over the network     {network:7.2f} s   (median of rounds 2 to {ROUNDS})")
    print(f"  round on the local engine  {here:7.2f} s   overhead {network - here:.2f} s")
    print(f"  work of the slowest site   {work:7.2f} s   (locally {alone:.2f} s)")
    print(f"  CPU to answer a message    {answering / messages:7.2f} s   (of {messages} messages)")
    print(f"  CPU of standing processes  {standing / messages:7.2f} s   per message (polling)")
    used = (server[1] - server[0]) / (ROUNDS - 1)
    print(f"  CPU of the server          {used:7.2f} s   per round (all processes)", flush=True)


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [4]:
        with tempfile.TemporaryDirectory(prefix="feda3i-bench-") as place:
            bench(count, Path(place))
