"""Train on redrawn masks: what share of the gap to clean masks does it close.

For each data set, noise setting and seed: a FedAvg warm-up of 240 local steps on the noisy masks
(shared), then a few rounds of 24 steps of each variant from there, so that all have as many rounds
to act. b0 is measured on 32 further training cases with clean masks. One JSON line per variant;
what is in the file is not run again.

    python benchmarks/offset_training.py OUT.jsonl --data skin=FOLDER breast=FOLDER
    python benchmarks/offset_training.py OUT.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import offset_data
from feda3i import quality, recipe
from feda3i.core.cases import Federation
from feda3i.core.messages import Params
from feda3i.engine.console import Silent
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.simulation.views import clean

SETTINGS = {
    "skin": ("skin-ns", "skin-ne", "clean", "all-over"),
    "breast": ("breast-ns", "breast-ne", "clean", "all-over"),
}
WARM, AFTER, LAST = 10, 4, 3
VARIANTS: dict[str, dict[str, Any]] = {
    "FedAvg": {"name": "fedavg"},
    "FedA3I": {"name": "feda3i", "t1": WARM, "safe": False},
    "redraw": {"name": "redraw"},
    "redraw, no b0": {"name": "redraw"},
    "redraw, then FedA3I": {
        "name": "redraw",
        "then": "feda3i",
        "options": {"t1": WARM, "safe": False},
    },
    "clean": {"name": "fedavg"},
}


CAREFUL = ("FedAvg", "redraw", "redraw, no b0")
"""Where all draw well, FedAvg is the ceiling, and redrawing must not hurt."""


def recipe_of(seed: int, size: int, method: dict[str, Any]) -> recipe.Recipe:
    """Return width 8, 6 epochs in batches of 4: 24 steps a round at a site with 16 cases."""
    changes = [f"seed={seed}", f"rounds={WARM + AFTER}", f"data.size={size}", "model.width=8"]
    changes += ["model.momentum=0.3", "train.epochs=6", "train.batch=4", "engine.workers=1"]
    values = recipe.load(None, changes).to_dict()
    values["method"] = method
    return recipe.validate(values)


def play(
    made: recipe.Recipe, federation: Federation, first: int, last: int, start: Params | None
) -> tuple[Params, list[float]]:
    """Play rounds from given parameters; return the last ones and the test Dice of each round."""
    scores = []
    with tempfile.TemporaryDirectory() as name:
        job = job_of(made, federation)
        transport = LocalTransport(job, federation, Path(name))
        server = job.server(transport.sites(), start)
        job.method.start(server)
        for number in range(first, last + 1):
            Round(job, server, transport, number, Silent(), Path(name)).run()
            if start is not None:
                rows = transport.score(server.params, "test", False)
                scores.append(summarise_scores(rows)["dice"])
        transport.close()
    return server.params, scores


def compare(setting: offset_data.Setting, made: recipe.Recipe, warm: Params) -> dict[str, Any]:
    """Return rank correlations of both estimators with mu over sites, and with each other."""
    predictor = job_of(made, setting.federation).predictor().load(warm)
    edges, model = [], []
    for cases in setting.sites:
        predicted = predictor.probabilities(cases.images)[:, 0] > 0.5
        model.append(quality.measure_model(cases.masks, predicted)[0])
        edges.append(quality.measure_edges(cases.images, cases.masks))
    truth = [quality.Offset(mu, 0.0, 1) for mu in setting.mu.tolist()]
    return {
        "edges": quality.agreement(edges, truth),
        "model": quality.agreement(model, truth),
        "agreement": quality.agreement(edges, model),
    }


def rows_of(key: dict[str, Any], folder: str, missing: list[str]) -> Iterator[dict[str, Any]]:
    """Yield one row per variant."""
    seed, size = key["seed"], key["size"]
    setting = offset_data.make(folder, key["setting"], seed, size=size, sites=key["sites"])
    b0 = quality.measure_edges(setting.trusted.images, setting.trusted.masks)
    scale = size / quality.SIDE
    calibrated = {"b0": [b0.offset / scale], "b0_error": b0.error / scale}
    with one_thread():
        base = recipe_of(seed, size, VARIANTS["FedAvg"])
        warm, _ = play(base, setting.federation, 1, WARM, None)
        estimators = compare(setting, base, warm)
        for variant in missing:
            method = dict(VARIANTS[variant])
            if method["name"] == "redraw" and variant != "redraw, no b0":
                method |= calibrated
            federation = setting.federation
            if variant == "clean":
                federation = clean(federation)
            made = recipe_of(seed, size, method)
            _, scores = play(made, federation, WARM + 1, WARM + AFTER, warm)
            told = {name: round(value, 3) for name, value in estimators.items()}
            dice = round(float(np.mean(scores[-LAST:])), 5)
            b0_here = round(b0.offset / scale, 2)
            yield {**key, "variant": variant, "dice": dice, "b0_px": b0_here, **told}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the tables of every number of sites, as Markdown."""
    parts = []
    for sites in sorted({row["sites"] for row in rows}):
        here = [row for row in rows if row["sites"] == sites]
        parts.append(f"{sites} sites:\n\n{_table(here)}")
    return "\n\n".join(parts)


def _table(rows: list[dict[str, Any]]) -> str:
    """Return test Dice by place and the share of the gap that each variant closes."""
    run = {row["variant"] for row in rows}
    names = [name for name in VARIANTS if name in run]
    lines = [
        "| data | annotators | seeds | " + " | ".join(names) + " |",
        "|---|---|---|" + "---|" * len(names),
    ]
    shares: dict[str, list[float]] = {}
    for data, noise in sorted({(row["data"], row["setting"]) for row in rows}):
        here = [row for row in rows if (row["data"], row["setting"]) == (data, noise)]
        seeds = sorted({row["seed"] for row in here})
        found = {(row["variant"], row["seed"]): 100 * row["dice"] for row in here}
        if noise == "clean":  # the ceiling is FedAvg itself
            found |= {("clean", s): found["FedAvg", s] for s in seeds if ("FedAvg", s) in found}
        whole = [s for s in seeds if ("FedAvg", s) in found and ("clean", s) in found]
        cells = []
        for name in names:
            dice = np.array([found[name, seed] for seed in whole if (name, seed) in found])
            spread = f" ± {dice.std():.1f}" if len(dice) > 1 else ""
            fewer = f" (of {len(dice)})" if len(dice) < len(whole) else ""
            cells.append(f"{dice.mean():.1f}{spread}{fewer}" if len(dice) else "-")
            if noise != "clean":
                for seed in [seed for seed in whole if (name, seed) in found]:
                    low, high = found["FedAvg", seed], found["clean", seed]
                    shares.setdefault(name, []).append((found[name, seed] - low, high - low))
        lines.append(f"| {data} | {noise} | {len(whole)} | {' | '.join(cells)} |")
    lines += ["", "| variant | runs | share of the gap closed | worst against FedAvg, points |"]
    lines += ["|---|---|---|---|"]
    for name, pairs in shares.items():
        gain, gap = np.array(pairs).T
        part = f"{gain.sum() / gap.sum():.0%}"
        lines.append(f"| {name} | {len(gain)} | {part} | {gain.min():+.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="+", default=[], help="skin=FOLDER breast=FOLDER")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--settings", nargs="+", default=["ns", "ne", "clean", "over"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--part", default="1/1", help="I/N: only every N-th place, from the I-th")
    parser.add_argument("--table", action="store_true", help="print what the file holds")
    arguments = parser.parse_args()
    found = []
    if arguments.out.exists():
        found = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    if arguments.table:
        print(table(found))
        return
    folders = dict(one.split("=", 1) for one in arguments.data)
    places = [
        (data, noise, seed)
        for seed, data in product(arguments.seeds, folders)
        for noise in SETTINGS[data]
        if noise.endswith(tuple(arguments.settings))
    ]
    part, parts = (int(number) for number in arguments.part.split("/"))
    for data, noise, seed in places[part - 1 :: parts]:
        key = {"data": data, "setting": noise, "seed": seed}
        key |= {"size": arguments.size, "sites": arguments.sites}
        done = {row["variant"] for row in found if key.items() <= row.items()}
        wanted = arguments.variants if noise != "clean" else CAREFUL
        missing = [name for name in wanted if name not in done]
        if not missing:
            continue
        for row in rows_of(key, folders[data], missing):
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(data, noise, seed, row["variant"], f"{row['dice']:.4f}", flush=True)


if __name__ == "__main__":
    main()
