"""Run folders as the engine writes them, without training: recipe, manifest, events, DONE."""

import hashlib
import json

import numpy as np
import tomli_w

from feda3i import recipe
from feda3i.engine.manifest import manifest_of
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
    changes = [f"method={method}", f"seed={seed}", f"rounds={rounds}", f"noise.setting={setting}"]
    made = recipe.load(None, [*changes, "data=synthetic-skin", "noise.name=contour"])
    made = made.model_copy(update={"title": f"{method}, seed {seed}"})
    mu = dict(zip(names, np.linspace(-4, 6, len(names)).tolist(), strict=True))
    notes = {"annotators": {site: {"mu": value} for site, value in mu.items()}}
    data = {
        **dict.fromkeys(("sha256", "test_sha256", "sites_sha256"), f"{seed:064x}"),
        "cases": 8 * len(names),
        "test": test,
        "classes": ["lesion"],
        "sites": dict.fromkeys(names, 8),
        "notes": notes if is_simulated else {},
    }
    path.mkdir(parents=True)
    (path / "recipe.toml").write_text(tomli_w.dumps(made.shared()), encoding="utf-8")
    manifest = manifest_of(made, {"data": data})
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    if is_done:
        (path / "DONE").write_text("0" * 64 + "\n")
    write_events(path, _events(made.shared(), names, mu, rounds, test, start, method, draw))
    return path


def events_of(path):
    return [json.loads(line) for line in (path / "events.jsonl").read_text("utf-8").splitlines()]


def write_events(path, events):
    """Write a log, and its hash into the manifest of a finished run."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    (path / "events.jsonl").write_text(text, encoding="utf-8")
    if (path / "DONE").exists():
        change_manifest(path, events_sha256=hashlib.sha256(text.encode()).hexdigest())


def change_manifest(path, **values):
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    (path / "manifest.json").write_text(json.dumps(manifest | values), encoding="utf-8")


def _events(recipe, names, mu, rounds, test, start, method, draw):
    yield {"event": "start", "recipe": recipe, "stages": list(STAGES)}
    t1 = rounds // 2
    q = {site: [0.3 + 0.1 * max(m, 0), 0.3 + 0.1 * max(-m, 0)] for site, m in mu.items()}
    surveys = {site: SiteSurvey.from_dict({"q": [own], "cases": [8]}) for site, own in q.items()}
    rating = rate_sites(surveys)
    for number in range(1, rounds + 1):
        is_second = method == "feda3i" and number > t1
        dice = start + 0.02 * number + 0.05 * is_second
        rows = [_row(f"case-{k}", dice, draw) for k in range(test)]
        yield {"event": "score", "round": number, "split": "test", "rows": rows}
        event = {"event": "round", "round": number, "missing": {}, "seconds": 30.0}
        event |= {"asked": len(names), "answered": len(names), "dice": dice, "iou": dice - 0.1}
        event |= {"loss": 0.5 * 0.99**number, "site_loss": dict.fromkeys(names, 0.4)}
        if is_second:
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
