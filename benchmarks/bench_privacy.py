"""What secure aggregation and differential privacy cost: seconds, bytes, Dice.

Run: python benchmarks/bench_privacy.py protocol    (keys, masks and unmasking, without training)
     python benchmarks/bench_privacy.py dice [SEED ...]      (the same runs with and without masks)
     python benchmarks/bench_privacy.py epsilon [SEED ...]   (Dice against epsilon, 20 sites)

One thread. The tables are Markdown, as in docs/privacy.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.core.messages import Params
from feda3i.engine.run import run
from feda3i.engine.transport import one_thread
from feda3i.log.events import read_events
from feda3i.privacy.fixed import quantise
from feda3i.privacy.opening import Offer, Opening, new_attempt
from feda3i.privacy.rules import digest_of, needed_of
from feda3i.privacy.vault import Vault
from feda3i.recipe import validate

VALUES = 1_084_241
"""Of the paper's network (U-Net of width 16): weights and running statistics."""
SPANS = [(0, VALUES, 0)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def protocol(sites: int) -> None:
    """Print one row: seconds at a site and at the server, and bytes of a site, per round."""
    names = [f"site-{k:03d}" for k in range(sites)]
    values = np.random.default_rng(0).normal(0, 0.1, VALUES).astype(np.float32)
    params = digest_of(Params(values, np.zeros(1, np.int64)))
    with tempfile.TemporaryDirectory() as folder:
        vaults = {n: Vault(n, Path(folder) / n, Path(folder) / n, "auto", 1.0) for n in names}
        peers = {name: vault.introduce()["identity"] for name, vault in vaults.items()}
        message = {"attempt": new_attempt(), "peers": peers}
        offered, spent = timed(lambda: {n: v.offer(1, message) for n, v in vaults.items()})
        at_site = spent / sites
        offers = {n: Offer.read(o, set(names) - {n}) for n, o in offered.items()}
        opening = Opening(message["attempt"], peers, offers, needed_of(sites, "auto"))
        opening.settle(1, np.full((sites, 1), 1 / sites), params)
        lost = names[: sites - opening.needed]
        stayed = [name for name in names if name not in lost]
        spent = 0.0
        for name in stayed:

            def mask(name: str = name) -> Any:
                own = vaults[name].enter(1, opening.order(name), 1, params)
                return vaults[name].mask(1, quantise(values, own, SPANS))

            masked, seconds = timed(mask)
            spent += seconds
            opening.add(masked)
        at_site += spent / len(stayed)
        request = {"attempt": opening.attempt, "stayed": stayed}
        answers = {name: vaults[name].open(1, request) for name in stayed}
        total, at_server = timed(lambda: opening.open(stayed, answers))
        plain = quantise(values, np.array([1 / sites]), SPANS) * np.uint64(len(stayed))
        assert np.array_equal(total, plain), "the masks did not cancel"
        name = stayed[0]
        up = 8 * VALUES + len(json.dumps(offered[name])) + len(json.dumps(answers[name]))
        down = 4 * VALUES + sum(len(json.dumps(m)) for m in (message, opening.order(name), request))
    print(
        f"| {sites} | {len(lost)} | {at_site:.2f} | {at_server:.2f} | {up / 1e6:.2f} | "
        f"{down / 1e6:.2f} |",
        flush=True,
    )


def score(values: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        result = run(validate(values), Path(folder) / "run")
        last = list(read_events(result.path / "events.jsonl", "round"))[-1]
        return result.scores["dice"], last


def small(sites: int, cases: int, rounds: int, seed: int, method: dict[str, Any]) -> dict[str, Any]:
    return {
        "seed": seed,
        "rounds": rounds,
        "data": {
            "name": "synthetic-skin",
            "sites": sites,
            "cases": cases,
            "test": 48,
            "size": 32,
        },
        "noise": {"name": "contour", "setting": "skin-ne"},
        "model": {"name": "unet", "width": 4},
        "method": method,
        "train": {"epochs": 3, "batch": 2},
        "evaluate": {"every": 1000},
        "engine": {"workers": 1, "device": "cpu"},
    }


def dice(seeds: list[int]) -> None:
    # A cap that caps nobody sums in another order: that alone changes the last digits.
    print("| method | seed | plain | plain, other rounding | secure |\n|---|---|---|---|---|")
    for method in ({"name": "fedavg"}, {"name": "feda3i", "t1": 4}):
        for seed in seeds:
            values = small(8, 8, 8, seed, method)
            plain, _ = score(values)
            other, _ = score({**values, "engine": {**values["engine"], "max_share": 0.99}})
            secure, _ = score({**values, "secure": {"on": True}})
            name = method["name"]
            print(f"| {name} | {seed} | {plain:.3f} | {other:.3f} | {secure:.3f} |", flush=True)


def epsilon(seeds: list[int]) -> None:
    print("| noise multiplier | epsilon, server | epsilon, models only | Dice by seed | mean |")
    print("|---|---|---|---|---|")
    for z in (None, 0.0, 0.001, 0.01, 0.03, 0.1, 0.3):
        found, facts = [], {}
        for seed in seeds:
            values = small(20, 8, 6, seed, {"name": "fedavg"})
            values["model"]["norm"] = "group"  # no running statistics, which would need noise too
            if z is not None:
                values["privacy"] = {"on": True, "clip": 2.0, "noise_multiplier": z}
            one, last = score(values)
            found.append(one)
            facts = last.get("privacy", {})
        spent = [facts.get(f"epsilon_{view}") for view in ("server", "models")]
        shown = ["none" if one is None else f"{one:,.0f}" for one in spent]
        name = "privacy off" if z is None else "0 (clip only)" if z == 0 else f"{z:g}"
        each = ", ".join(f"{one:.3f}" for one in found)
        print(f"| {name} | {shown[0]} | {shown[1]} | {each} | {np.mean(found):.3f} |", flush=True)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "protocol"
    given = [int(seed) for seed in sys.argv[2:]]
    if what == "protocol":
        with one_thread():
            print("| sites | lost | CPU s at a site | CPU s at the server | MB up | MB down |")
            print("|---|---|---|---|---|---|")
            for count in (4, 10, 20, 50):
                protocol(count)
    elif what == "dice":
        dice(given or [0, 1, 2])
    else:
        epsilon(given or [0, 1, 2])
