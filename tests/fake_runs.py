"""Run folders as the engine writes them, without training: recipe, manifest, events, DONE."""

import json

import numpy as np

from feda3i.engine.manifest import FORMAT
from feda3i.quality import SiteSurvey, rate_sites
from feda3i.seeding import rng

STAGES = ("inc", "down1", "down2", "up1", "up2", "outc")


def fake_run(
    path,
    *,
    method="feda3i",
    seed=0,
    sites=4,
    rounds=4,
    names=None,
    test=6,
    start=0.5,
    is_done=True,
    is_simulated=True,
    setting="skin-ne",
):
    """Write a run whose Dice rises from ``start`` by 0.02 a round, and 0.05 more with FedA3I."""
    draw = rng(seed, "fake run", method)
    names = list(names or (f"site-{k + 1:02}" for k in range(sites)))
    path.mkdir(parents=True)
    recipe = {
        "title": f"{method}, seed {seed}",
        "seed": seed,
        "rounds": rounds,
        "data": {"name": "synthetic-skin"},
        "noise": {"name": "contour", "setting": setting},
        "method": {"name": method},
    }
    mu = dict(zip(names, np.linspace(-4, 6, len(names)).tolist(), strict=True))
    notes = {"annotators": {site: {"mu": value} for site, value in mu.items()}}
    manifest = {
        "format": FORMAT,
        "feda3i": "0.1.0",
        "seed": seed,
        "data": {
            "sha256": f"{seed:064x}",
            "cases": 8 * len(names),
            "test": test,
            "classes": ["lesion"],
            "sites": dict.fromkeys(names, 8),
            "notes": notes if is_simulated else {},
        },
    }
    toml = [f"{key} = {json.dumps(recipe[key])}" for key in ("title", "seed", "rounds")]
    for key in ("data", "noise", "method"):
        toml += [f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in recipe[key].items())]
    (path / "recipe.toml").write_text("\n".join(toml), encoding="utf-8")
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    events = list(_events(recipe, names, mu, rounds, test, start, method, draw))
    lines = [json.dumps(event) + "\n" for event in events]
    (path / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    if is_done:
        (path / "DONE").write_text("0" * 64 + "\n")
    return path


def _events(recipe, names, mu, rounds, test, start, method, draw):
    yield {"event": "start", "recipe": recipe, "stages": list(STAGES)}
    t1 = rounds // 2
    rating = _rating(names, mu)
    for number in range(1, rounds + 1):
        gains = 0.05 if method == "feda3i" and number > t1 else 0.0
        dice = start + 0.02 * number + gains
        rows = [_row(f"case-{k}", dice, draw) for k in range(test)]
        yield {"event": "score", "round": number, "split": "test", "rows": rows}
        event = {
            "event": "round",
            "round": number,
            "asked": len(names),
            "answered": len(names),
            "missing": {},
            "loss": 0.5 * 0.99**number,
            "site_loss": dict.fromkeys(names, 0.4),
            "site_seconds": dict.fromkeys(names, 1.5),
            "seconds": 30.0,
            "dice": dice,
            "iou": dice - 0.1,
        }
        if method == "feda3i" and number > t1:
            weights = rating.weights(names, [8] * len(names))
            ramp = np.linspace(0, 1, len(STAGES))
            by_stage = weights[:, None] * ramp + (1 - ramp) / len(names)
            event["weights"] = dict(zip(names, by_stage.tolist(), strict=True))
            if number == t1 + 1:
                event["survey"] = rating.to_dict()
        yield event
    rows = [
        {**_row(f"{site}-{k}", dice - 0.01 * i, draw), "site": site}
        for i, site in enumerate(names)
        for k in range(2)
    ]
    yield {"event": "score", "round": rounds, "split": "train", "rows": rows}


def _row(case, dice, draw):
    jitter = float(draw.normal(0, 1e-3))
    return {"case": case, "class": 1, "dice": dice + jitter, "iou": dice - 0.1, "empty": "none"}


def _rating(names, mu):
    def survey(value):
        q = [[0.3 + 0.1 * max(value, 0), 0.3 + 0.1 * max(-value, 0)]]
        return SiteSurvey.from_dict({"q": q, "cases": [8]})

    return rate_sites({site: survey(value) for site, value in mu.items()})
