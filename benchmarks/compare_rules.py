"""Compare grouping rules and ablations of FedA3I side by side on synthetic cases.

For each noise setting and seed the warm-up is trained once; every variant goes on from it with the
same survey. Prints, per variant: the share of sites whose group is the sign of their true mu, the
residual bias sum_i w_i mu_i of the quality weights (px at 256), and the test Dice.

Run: python benchmarks/compare_rules.py OUT.jsonl [--seeds 0 1 2] [--settings skin-ns skin-ne]
Then: python benchmarks/compare_rules.py OUT.jsonl --table
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy.stats import spearmanr

import by_seed
from feda3i import quality, recipe
from feda3i.core.server import Server
from feda3i.engine.job import Job
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.log.console import Silent
from feda3i.simulation.federation import federation_of
from feda3i.simulation.views import as_trained

VARIANTS: dict[str, dict[str, Any]] = {
    "FedAvg": {"weighting": "fedavg"},
    "+IntraGW (r = share)": {"weighting": "intra"},
    "FedA3I, mixture (paper)": {},
    "FedA3I, sign": {"rule": "sign"},
    "FedA3I, difference": {"rule": "difference"},
    "FedA3I, midrange": {"rule": "midrange"},
    "FedA3I, none": {"rule": "none"},
    "FedA3I, mixture, both": {"statistic": "both"},
    "FedA3I, midrange, both": {"rule": "midrange", "statistic": "both"},
}
CLEAN = "FedAvg on clean masks"


def compare(setting: str, seed: int, overrides: list[str]) -> list[dict[str, Any]]:
    """Return one row per variant for a noise setting and a seed."""
    base = recipe.load("demo", [f"seed={seed}", f"noise.setting={setting}", *overrides])
    federation = federation_of(base)
    mu = {site: one["mu"] for site, one in federation.notes["annotators"].items()}
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        # Sites answer with all statistics, so that one survey serves every variant.
        values = base.to_dict()
        values["method"] = {**values["method"], "statistic": "both"}
        asking = recipe.validate(values)
        job = job_of(asking, federation)
        transport = LocalTransport(job, federation, Path(folder))
        try:
            warm = _fresh(job, transport)
            t1 = int(base.method.options()["t1"])
            for number in range(1, t1 + 1):
                Round(job, warm, transport, number, Silent(), Path(folder)).play()
            warm_dice = _dice(transport, warm)
            rows = []
            for name, options in VARIANTS.items():
                rows.append(_branch(name, options, base, warm, transport, mu, Path(folder)))
                print(f"  {setting} seed {seed} {name:26} Dice {rows[-1]['dice']:.4f}", flush=True)
        finally:
            transport.close()
        rows.append(_ceiling(base, federation, Path(folder) / "clean"))
    for row in rows:
        row.update(setting=setting, seed=seed, warm_up_dice=warm_dice)
    return rows


def _fresh(job: Any, transport: LocalTransport) -> Server:
    return job.server(transport.sites())


def _branch(
    name: str,
    options: dict[str, Any],
    base: recipe.Recipe,
    warm: Server,
    transport: LocalTransport,
    mu: dict[str, float],
    folder: Path,
) -> dict[str, Any]:
    values = base.to_dict()
    values["method"] = {**values["method"], **options}
    job = Job(recipe.validate(values), warm.format)
    server = job.server(warm.sites, warm.params, copy.deepcopy(warm.state))
    first = int(values["method"]["t1"]) + 1
    scores = []
    for number in range(first, base.rounds + 1):
        Round(job, server, transport, number, Silent(), folder).play()
        scores.append(_dice(transport, server))
    row: dict[str, Any] = {
        "variant": name,
        "dice": scores[-1],
        "dice_last_five": float(np.mean(scores[-5:])),
    }
    if "rating" in server.state:
        row.update(_survey_facts(server, mu))
    else:  # everybody has a say by number of cases: the bias that a grouping has to beat
        cases = np.array([server.sites[site] for site in mu], dtype=float)
        bias = cases / cases.sum() @ np.array(list(mu.values()))
        row["residual_bias"] = float(256 / server.format.shape[0] * bias)
    return row


def _survey_facts(server: Server, mu: dict[str, float]) -> dict[str, Any]:
    rating = quality.Rating.from_dict(server.state["rating"])
    scale = 256 / server.format.shape[0]
    truth = np.array([mu[site] for site in rating.sites])
    cases = np.array([server.sites[site] for site in rating.sites], dtype=float)
    weights = rating.weights(rating.sites, cases)
    part = rating.parts[0]
    right = [
        (label == "larger") == (m > 0) for label, m in zip(part.grouping.labels, truth, strict=True)
    ]
    return {
        "spearman": float(spearmanr(part.q[:, 0] - part.q[:, 1], truth).statistic),
        "grouped_right": float(np.mean(right)) if part.grouping.rule != "none" else None,
        "residual_bias": float(scale * (weights @ truth)),
        "effective_sites": quality.effective_sites(weights),
        "agreement": part.grouping.to_dict()["agreement"],
        "reason": part.grouping.reason,
    }


def _dice(transport: LocalTransport, server: Server) -> float:
    return summarise_scores(transport.score(server.params, "test", False))["dice"]


def _ceiling(base: recipe.Recipe, federation: Any, folder: Path) -> dict[str, Any]:
    job = job_of(recipe.validate({**base.to_dict(), "method": {"name": "clean"}}), federation)
    transport = LocalTransport(job, as_trained(federation, job.recipe.method.name), folder)
    server = _fresh(job, transport)
    scores = []
    try:
        for number in range(1, base.rounds + 1):
            Round(job, server, transport, number, Silent(), folder).play()
            scores.append(_dice(transport, server))
    finally:
        transport.close()
    return {"variant": CLEAN, "dice": scores[-1], "dice_last_five": float(np.mean(scores[-5:]))}


def table(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table per setting: mean and spread over seeds."""
    text = []
    for setting in sorted({row["setting"] for row in rows}):
        here = [row for row in rows if row["setting"] == setting]
        seeds = sorted({row["seed"] for row in here})
        warm = {row["seed"]: row["warm_up_dice"] for row in here}
        found = defaultdict(list)
        for row in here:
            found[row["variant"]].append(row)
        ranks = [row["spearman"] for row in found["FedA3I, mixture (paper)"]]
        text.append(
            f"\n**{setting}**, seeds {', '.join(map(str, seeds))}; warm-up Dice "
            f"{', '.join(f'{v:.3f}' for v in warm.values())}; Spearman(q1 - q2, mu) "
            f"{', '.join(f'{v:.2f}' for v in ranks)}\n"
        )
        text.append(
            "| variant | Dice % (mean of last five) | Dice % (last) | sites grouped right "
            "| residual bias (px at 256) | effective sites |\n|---|---|---|---|---|---|"
        )
        for variant in (*VARIANTS, CLEAN):
            group = found[variant]
            text.append(
                f"| {variant} | {_spread(group, 'dice_last_five', 100)} "
                f"| {_spread(group, 'dice', 100)} "
                f"| {_spread(group, 'grouped_right')} | {_bias(group)} "
                f"| {_spread(group, 'effective_sites')} |"
            )
    return "\n".join(text)


def _spread(rows: list[dict[str, Any]], name: str, scale: float = 1.0) -> str:
    values = [scale * row[name] for row in rows if row.get(name) is not None]
    digits = 1 if scale > 1 or name == "effective_sites" else 2
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}" if values else "-"


def _bias(rows: list[dict[str, Any]]) -> str:
    values = [row["residual_bias"] for row in rows if "residual_bias" in row]
    return ", ".join(f"{v:+.1f}" for v in values) if values else "-"


def main() -> None:
    arguments = by_seed.parser(__doc__).parse_args()
    print(table(by_seed.collect(arguments, partial(compare, overrides=arguments.set))))


if __name__ == "__main__":
    main()
