"""How good is the audit? Simulated annotators with a known offset, and real ones with a gold mask.

For each data set, noise setting and seed: models of 240 local steps of FedAvg that have not seen
the masks they judge (as ``feda3i audit``), and one that has, for comparison. The file keeps the
offset of every case, so that tables need no training. What is in the file is not run again.

    python benchmarks/audit.py OUT.jsonl [--data synthetic-skin FOLDER ...] [--seeds 0 1]
    python benchmarks/audit.py OUT.jsonl --annotators FOLDER
    python benchmarks/audit.py OUT.jsonl --table
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import re
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from feda3i import recipe
from feda3i.audit.case_rows import CaseRow, measure_cases
from feda3i.audit.cross_fit import cross_predict, train, warm_up_recipe
from feda3i.audit.estimators import contour_gap
from feda3i.core.cases import Cases, Federation
from feda3i.engine.console import Silent
from feda3i.engine.transport import one_thread
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

STEPS, SIZE = 240, 32
FULL = 256
"""Side at which the paper gives its noise, in pixels; offsets are told at this scale."""
MODELS = ("unseen", "seen")
WHO = (
    r"expert_Person\d_ImageJ",
    r"expert_Person\d_Amira",
    r"expert_2A_Person\d_ImageJ",
    r"expert_Expert\d",
    r"crowd\d",
)


def recipe_of(data: str, setting: str, sites: int, seed: int) -> recipe.Recipe:
    """Return 32 px, width 8, 16 cases a site, as benchmarks/fair_say.py."""
    changes = [
        f"seed={seed}",
        f"data={data}",
        f"data.size={SIZE}",
        f"data.sites={sites}",
        "data.cases=16",
        "data.test=20",
        f"noise.setting={setting}",
        "noise.name=contour",
        "model.width=8",
        "model.momentum=0.3",
        "train.batch=4",
        "engine.workers=1",
    ]
    return recipe.load(None, changes)


def simulated(place: dict[str, Any], data: str, model: str) -> dict[str, Any]:
    """Return the measurements of simulated annotators."""
    base = recipe_of(data, place["setting"], place["sites"], place["seed"])
    federation = federation_of(base)
    notes = federation.notes["annotators"]
    scale = FULL / SIZE
    truth = {s: [scale * notes[s]["mu"], scale * notes[s]["sigma"]] for s in federation.names()}
    return measured(base, federation, truth, model, place["steps"])


def measured(
    base: recipe.Recipe,
    federation: Federation,
    truth: dict[str, list[Any]],
    model: str,
    steps: int,
) -> dict[str, Any]:
    """Measure with models that have not seen the masks, or with one that has."""
    warm = warm_up_recipe(base, federation, steps, share=1.0 if model == "seen" else 0.5)
    started = time.perf_counter()
    with one_thread():
        if model == "unseen":
            guess = cross_predict(warm, federation)[0].masks
        else:
            guess = train(warm, federation, Silent()).masks(np.asarray(federation.train.images))
        rows = measure_cases(federation.train, sites_of(federation), guess)
    return {"model": model, "truth": truth, **facts(rows, federation, started)}


def sites_of(federation: Federation) -> list[str]:
    """Return the site of every training case."""
    place = {int(i): site for site, index in federation.sites.items() for i in index}
    return [place[i] for i in range(len(federation.train))]


def facts(rows: list[CaseRow], federation: Federation, started: float) -> dict[str, Any]:
    """Return by site what was measured of each case, in pixels at 256."""
    scale = FULL / federation.train.shape[0]
    clean = federation.clean_masks
    cases: dict[str, list[list[float | None]]] = {site: [] for site in federation.names()}
    for place, row in enumerate(rows):
        mask = federation.train.masks[place]
        done = np.nan if clean is None else contour_gap(mask, clean[place])[0]
        values = [scale * row.offsets["contour"], scale * row.wobble, row.dice, scale * done]
        cases[row.site].append([round(v, 3) if np.isfinite(v) else None for v in values])
    return {"seconds": round(time.perf_counter() - started, 1), "size": SIZE, "cases": cases}


def annotators_of(folder: Path, who: str, seed: int) -> tuple[Federation, dict[str, list[Any]]]:
    """Make a site of each annotator; every picture goes to one of them. Also their true offsets.

    The true offset is the mean over all pictures of an annotator, measured from the gold masks.
    """
    known = sorted(
        path for path in (folder / "annotators").iterdir() if re.fullmatch(who, path.name)
    )
    names = sorted(set.intersection(*[{f.name for f in path.glob("*.png")} for path in known]))
    truth = {
        path.name: [
            float(np.median([_gap(path / name, folder / "masks" / name) for name in names])),
            None,
        ]
        for path in known
    }
    order = rng(seed, "annotators", who).permutation(len(names))
    ids, images, masks, sites = [], [], [], {}
    for number, path in enumerate(known):
        mine = [names[i] for i in order[number :: len(known)]]
        sites[path.name] = np.arange(len(ids), len(ids) + len(mine))
        ids += [f"{path.name}/{name}" for name in mine]
        images += [_picture(folder / "images" / name, Image.Resampling.BOX) for name in mine]
        masks += [_picture(path / name, Image.Resampling.NEAREST) > 0 for name in mine]
    cases = Cases(tuple(ids), np.stack(images)[..., None], np.stack(masks).astype(np.uint8))
    nothing = Cases((), cases.images[:0], cases.masks[:0])
    return Federation(cases, sites, nothing, ("cell",)), truth


def _gap(drawn: Path, gold: Path) -> float:
    """Return the offset of a mask from the gold one at the file's own size, told at 256."""
    one, two = (np.asarray(Image.open(path)) for path in (drawn, gold))
    return contour_gap(one, two)[0] * FULL / one.shape[0]


def _picture(path: Path, how: Image.Resampling) -> Any:
    with Image.open(path) as image:
        grey = image.convert("L")
        if how == Image.Resampling.NEAREST:  # masks: more than half of a pixel's area
            grey = grey.resize((SIZE, SIZE), Image.Resampling.BOX)
            return np.where(np.asarray(grey) > 127, 255, 0).astype(np.uint8)
        return np.asarray(grey.resize((SIZE, SIZE), how))


def human(place: dict[str, Any], folder: Path, model: str) -> dict[str, Any]:
    """Return the measurements of real annotators."""
    base = recipe_of("synthetic-skin", "skin-ns", 2, place["seed"])
    federation, truth = annotators_of(folder, place["setting"], place["seed"])
    return measured(base, federation, truth, model, place["steps"])


def main() -> None:
    """Run what is missing, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="+", default=[])
    parser.add_argument("--settings", nargs="+", default=["skin-ns", "skin-ne"])
    parser.add_argument("--sites", type=int, default=16)
    parser.add_argument("--models", nargs="+", default=["unseen"], choices=MODELS)
    parser.add_argument("--steps", type=int, default=STEPS, help="optimiser steps of a site")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--annotators", type=Path, help="folder of images, masks, annotators/WHO")
    parser.add_argument("--who", nargs="+", default=list(WHO), help="patterns of annotators' names")
    parser.add_argument("--table", action="store_true", help="print what the file holds")
    arguments = parser.parse_args()
    if arguments.table:
        from audit_tables import tables

        print(tables(_read(arguments.out)))
        return
    todo: list[tuple[dict[str, Any], Callable[..., dict[str, Any]], Any]] = []
    for seed, setting, data in product(arguments.seeds, arguments.settings, arguments.data):
        place = {"data": Path(data).name, "setting": setting, "sites": arguments.sites}
        todo.append(({**place, "seed": seed, "steps": arguments.steps}, simulated, data))
    for seed, who in product(arguments.seeds, arguments.who if arguments.annotators else []):
        place = {"data": arguments.annotators.name, "setting": who, "seed": seed}
        todo.append(({**place, "steps": arguments.steps}, human, arguments.annotators))
    for (place, make, source), model in product(todo, arguments.models):
        key = {**place, "model": model}
        if not any(key.items() <= row.items() for row in _read(arguments.out)):
            row = {**place, **make(place, source, model)}
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(key, row["seconds"], flush=True)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
