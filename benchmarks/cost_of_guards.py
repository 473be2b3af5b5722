"""What guard, trimmed mean and median cost when every site is honest, and save when one is not.

FedAvg on synthetic skin images, 6 sites of 24 cases, 20 rounds; masks without noise, and with the
paper's noise between sites (skin-ne), where honest sites differ. Dice is the mean of the last five
rounds on 120 test cases. With --bad, one site adds noise of standard deviation 1 to its update.

    python benchmarks/cost_of_guards.py OUT.jsonl [--seeds 0 1 2] [--bad]
    python benchmarks/cost_of_guards.py OUT.jsonl --table

What is in the file is not run again, so a killed run goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from feda3i import recipe
from feda3i.core.messages import Missing, Order, Params, Reply
from feda3i.engine.console import Silent
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

ROUNDS, LAST, SITES = 20, 5, 6
KINDS: dict[str, dict[str, Any]] = {
    "mean": {},
    "guard=clip": {"guard": "clip"},
    "guard=leave-out": {"guard": "leave-out"},
    "merge=trimmed": {"merge": "trimmed", "trim": 0.15},  # one of six at each end
    "merge=median": {"merge": "median"},
}
NOISES = {"none": "none", "skin-ne": "contour"}


class Spoiled(LocalTransport):
    """One site adds noise to its update; the others are honest."""

    def call(self, orders: Sequence[Order]) -> Iterator[Reply | Missing]:
        """Yield the answers, one of them spoiled."""
        for answer in super().call(orders):
            if isinstance(answer, Reply) and answer.params is not None and answer.site == self.bad:
                generator = rng(0, "spoil", answer.round)
                noise = generator.normal(0, 1, len(answer.params.values)) * self.trained
                values = (answer.params.values + noise).astype("float32")
                answer = replace(answer, params=Params(values, answer.params.counts))
            yield answer


def played(kind: str, noise: str, seed: int, is_bad: bool) -> dict[str, Any]:
    """Return the row of one run."""
    values = {
        "seed": seed,
        "rounds": ROUNDS,
        "data": {"name": "synthetic-skin", "sites": SITES, "cases": 24, "test": 120, "size": 32},
        "noise": {"name": NOISES[noise], **({} if noise == "none" else {"setting": noise})},
        "model": {"name": "unet", "width": 8},
        "method": {"name": "fedavg"},
        "train": {"epochs": 3, "batch": 4},
        "engine": {"workers": 1, "device": "cpu", **KINDS[kind]},
    }
    made = recipe.validate(values)
    federation = federation_of(made)
    job = job_of(made, federation)
    dice, acted = [], 0
    with one_thread(), tempfile.TemporaryDirectory() as place:
        transport = (Spoiled if is_bad else LocalTransport)(job, federation, Path(place))
        if isinstance(transport, Spoiled):
            transport.bad, transport.trained = min(transport.sites()), job.layout.trained()
        server = job.server(transport.sites())
        for number in range(1, ROUNDS + 1):
            event = Round(job, server, transport, number, Silent(), Path(place)).play()
            acted += len(event.get("guarded", {}))
            if number > ROUNDS - LAST:
                rows = transport.score(server.params, "test", False)
                dice.append(summarise_scores(rows)["dice"])
        transport.close()
    label = {"kind": kind, "noise": noise, "seed": seed, "bad": is_bad}
    return {**label, "dice": statistics.mean(dice), "acted": acted}


def table(path: Path) -> None:
    """Print the means, and the differences from the mean by cases, paired by seed."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for is_bad, noise in product((False, True), NOISES):
        own = [row for row in rows if (row["bad"], row["noise"]) == (is_bad, noise)]
        base = {row["seed"]: row["dice"] for row in own if row["kind"] == "mean"}
        for kind in KINDS:
            found = [row for row in own if row["kind"] == kind and row["seed"] in base]
            if not found:
                continue
            gaps = [row["dice"] - base[row["seed"]] for row in found]
            acted = sum(row["acted"] for row in found) / (len(found) * ROUNDS * SITES)
            each = " ".join(f"{gap:+.4f}" for gap in gaps)
            mean = statistics.mean(row["dice"] for row in found)
            print(
                f"{'one bad' if is_bad else 'honest':8} {noise:8} {kind:16} {mean:.4f}  "
                f"{statistics.mean(gaps):+.4f}  (by seed {each})  acted on {acted:.1%} of updates"
            )


def main() -> None:
    """Run what is missing, or show the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--bad", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        table(given.out)
        return
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    keys = ("kind", "noise", "seed", "bad")
    done = {tuple(json.loads(line)[key] for key in keys) for line in lines}
    for seed, noise, kind in product(given.seeds, NOISES, KINDS):
        if (kind, noise, seed, given.bad) not in done:
            with given.out.open("a") as file:
                file.write(json.dumps(played(kind, noise, seed, given.bad)) + "\n")


if __name__ == "__main__":
    main()
