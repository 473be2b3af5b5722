"""When does a survey mean something? Survey a FedAvg run again and again while it converges.

For each noise setting, seed and survey: test Dice of the model, Spearman of q1 - q2 with
the annotators' true mu, and for every grouping rule and statistic the share of sites grouped by the
sign of mu and the residual bias sum_i w_i mu_i (px at 256). No training depends on the survey.
With ``--draws N`` the model of the last round also surveys N other draws of the annotators on the
same cases: is a grouping the rule's doing, or that of the annotators who were drawn?

Run: python benchmarks/watch_survey.py OUT.jsonl [--seeds 0 1 2] [--rounds 4 8 12 16]
     python benchmarks/watch_survey.py OUT.jsonl --recipe skin_ns-small --set data=DIR train.batch=8
Then: python benchmarks/watch_survey.py OUT.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy.stats import spearmanr

from feda3i import quality, recipe
from feda3i.core.cases import Federation
from feda3i.core.messages import Order, Reply
from feda3i.core.server import Server
from feda3i.engine.console import Silent
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.methods.feda3i import survey_of
from feda3i.simulation.federation import federation_of

STATISTICS = ("mean", "contour", "both")


def watch(
    name: str, setting: str, seed: int, at: list[int], overrides: list[str], draws: int = 0
) -> list[dict[str, Any]]:
    """Return one row per survey of a FedAvg run."""
    changes = [f"seed={seed}", f"noise.setting={setting}", "method.statistic=both"]
    base = recipe.load(name, [*changes, "method.weighting=fedavg", *overrides])
    federation = federation_of(base)
    rows = []
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        job = job_of(base, federation)
        transport = LocalTransport(job, federation, Path(folder))
        server = job.server(transport.sites())
        try:
            for number in range(1, max(at) + 1):
                event = Round(job, server, transport, number, Silent(), Path(folder)).run()
                if number in at:
                    row = {"setting": setting, "seed": seed, "round": number, "loss": event["loss"]}
                    rows.append({**row, **_survey(server, transport, _true(federation))})
                    print(
                        f"  {setting} seed {seed} round {number} Dice {rows[-1]['dice']:.3f} "
                        f"Spearman {rows[-1]['spearman']:.3f}",
                        flush=True,
                    )
        finally:
            transport.close()
        for draw in range(1, draws + 1):
            others = federation_of(base.model_copy(update={"noise": _redrawn(base, draw)}))
            transport = LocalTransport(job, others, Path(folder) / f"draw-{draw}")
            row = {"setting": setting, "seed": seed, "draw": draw}
            rows.append({**row, **_survey(server, transport, _true(others))})
            transport.close()
    return rows


def _true(federation: Federation) -> dict[str, float]:
    return {site: one["mu"] for site, one in federation.notes["annotators"].items()}


def _redrawn(base: recipe.Recipe, draw: int) -> Any:
    """Return the recipe's noise with other annotators."""
    return base.noise.model_copy(update={"seed": 1000 + draw})


def _survey(server: Server, transport: LocalTransport, mu: dict[str, float]) -> dict[str, Any]:
    sites = sorted(server.sites)
    orders = [Order("survey", 1, site, server.params) for site in sites]
    replies = [reply for reply in transport.call(orders) if isinstance(reply, Reply)]
    surveys = {reply.site: survey_of(reply.numbers) for reply in replies}
    truth = np.array([mu[site] for site in surveys])
    q = np.array([survey.mean[0] for survey in surveys.values()])
    scale = 256 / server.format.shape[0]
    cases = [float(server.sites[site]) for site in surveys]
    rules = {}
    for rule in quality.RULES:
        for statistic in STATISTICS:
            rating = quality.rate_sites(surveys, rule=rule, statistic=statistic, seed=0)
            weights = rating.weights(list(surveys), cases)
            labels = rating.parts[0].grouping.labels
            right = [(a == "larger") == (m > 0) for a, m in zip(labels, truth, strict=True)]
            rules[f"{rule}, {statistic}"] = [
                float(np.mean(right)),
                float(scale * (weights @ truth)),
            ]
    scores = summarise_scores(transport.score(server.params, "test", False))
    return {
        "dice": scores["dice"],
        "spearman": float(spearmanr(q[:, 0] - q[:, 1], truth).statistic),
        "fedavg_bias": float(scale * np.mean(truth)),
        "rules": rules,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return Markdown tables: correlation by warm-up, rules at the last survey, other draws."""
    drawn = [row for row in rows if "draw" in row]
    rows = [row for row in rows if "draw" not in row]
    settings = sorted({row["setting"] for row in rows})
    rounds = sorted({row["round"] for row in rows})
    text = [
        "| setting | " + " | ".join(f"round {r}: Dice, Spearman" for r in rounds) + " |",
        "|---|" + "---|" * len(rounds),
    ]
    for setting in settings:
        cells = []
        for number in rounds:
            here = [r for r in rows if r["setting"] == setting and r["round"] == number]
            cells.append("; ".join(f"{r['dice']:.2f}, {r['spearman']:.2f}" for r in here))
        text.append(f"| {setting} | " + " | ".join(cells) + " |")
    last = [row for row in rows if row["round"] == rounds[-1]]
    text += [
        f"\nAfter round {rounds[-1]}: share of sites grouped right / root mean square of the "
        "residual bias (px at 256)\n",
        "| rule, statistic | " + " | ".join(settings) + " | bias over both |",
        "|---|" + "---|" * (len(settings) + 1),
    ]
    bias = [_rms([r["fedavg_bias"] for r in last if r["setting"] == s]) for s in settings]
    both = _rms([r["fedavg_bias"] for r in last])
    text.append("| FedAvg | " + " | ".join(f"- / {b:.1f}" for b in bias) + f" | {both:.1f} |")
    for rule in last[0]["rules"]:
        cells = []
        for setting in settings:
            found = [r["rules"][rule] for r in last if r["setting"] == setting]
            share = "-" if rule.startswith("none") else f"{np.mean([f[0] for f in found]):.2f}"
            cells.append(f"{share} / {_rms([f[1] for f in found]):.1f}")
        both = _rms([r["rules"][rule][1] for r in last])
        text.append(f"| {rule} | " + " | ".join(cells) + f" | {both:.1f} |")
    return "\n".join([*text, *(_draws(drawn) if drawn else [])])


def _draws(rows: list[dict[str, Any]]) -> list[str]:
    """Return how each rule does over draws of the annotators, by setting."""
    lines = [
        "\nOther draws of the annotators, the same model: share of draws with nine of ten sites "
        "grouped right / with less bias than FedAvg / root mean square of the bias (px at 256)\n"
    ]
    settings = sorted({row["setting"] for row in rows})
    lines += [
        "| rule, statistic | " + " | ".join(settings) + " |",
        "|---|" + "---|" * len(settings),
    ]
    fedavg = [_rms([r["fedavg_bias"] for r in rows if r["setting"] == s]) for s in settings]
    lines.append("| FedAvg | " + " | ".join(f"- / - / {bias:.1f}" for bias in fedavg) + " |")
    for rule in rows[0]["rules"]:
        cells = []
        for setting in settings:
            here = [row for row in rows if row["setting"] == setting]
            right = np.mean([row["rules"][rule][0] >= 0.9 for row in here])
            less = np.mean([abs(r["rules"][rule][1]) < abs(r["fedavg_bias"]) for r in here])
            bias = _rms([row["rules"][rule][1] for row in here])
            cells.append(f"{right:.2f} / {less:.2f} / {bias:.1f}")
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    return lines


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="rows as lines of JSON; those it holds are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--settings", nargs="+", default=["skin-ne", "skin-ns"])
    parser.add_argument("--recipe", default="demo", help="what is trained")
    parser.add_argument("--set", nargs="*", default=[], help="further overrides of the recipe")
    parser.add_argument("--rounds", type=int, nargs="+", default=[4, 8, 12, 16])
    parser.add_argument("--draws", type=int, default=0, help="other draws of the annotators")
    parser.add_argument("--table", action="store_true", help="only print what OUT holds")
    asked = parser.parse_args()
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(row["setting"], row["seed"]) for row in rows}
    for seed, setting in product(asked.seeds, asked.settings):
        if (setting, seed) not in done and not asked.table:
            new = watch(
                asked.recipe, setting, seed, at=asked.rounds, overrides=asked.set, draws=asked.draws
            )
            with asked.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
            rows += new
    print(table(rows))


if __name__ == "__main__":
    main()
