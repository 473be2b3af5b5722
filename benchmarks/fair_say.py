"""Does every site keep a fair say? FedAvg, the paper's rule and the safe rule from 3 to 40 sites.

For each number of sites, noise setting, data set and seed: 240 local steps of FedAvg (shared),
then a few rounds of each variant from there. One JSON line per variant; what is in the file is not
run again, so a killed run goes on, and further variants use the warm-ups that were kept.

    python benchmarks/fair_say.py OUT.jsonl [--data synthetic-skin FOLDER ...] [--sites 3 5 8]
    python benchmarks/fair_say.py OUT.jsonl --table
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from feda3i import quality, recipe
from feda3i.core.cases import Federation
from feda3i.core.server import Server
from feda3i.core.trees import pack, unpack
from feda3i.engine.console import Silent
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.run import job_of
from feda3i.engine.transport import LocalTransport, one_thread
from feda3i.files import write_file
from feda3i.simulation.federation import federation_of

T1, AFTER, LAST = 10, 6, 4
VARIANTS: dict[str, dict[str, Any]] = {
    "FedAvg": {"weighting": "fedavg"},
    "paper": {"safe": False},
    "safe": {},
}


@dataclass(frozen=True)
class Place:
    """One federation to try the variants on."""

    data: str
    setting: str
    sites: int
    seed: int

    def recipe(self, options: dict[str, Any]) -> recipe.Recipe:
        """Return 32 px, width 8, 24 steps of 4 cases a round: the paper's 250 steps in minutes."""
        changes = [
            f"seed={self.seed}",
            f"rounds={T1 + AFTER}",
            f"data={self.data}",
            "data.size=32",
            f"data.sites={self.sites}",
            "data.cases=16",
            "data.test=100",
            f"noise.setting={self.setting}",
            "noise.name=contour",
            "model.width=8",
            "model.momentum=0.3",
            "train.epochs=6",
            "train.batch=4",
            "engine.workers=1",
        ]
        values = recipe.load(None, changes).to_dict()
        values["method"] = {"name": "feda3i", "t1": T1, **options}
        return recipe.validate(values)

    @property
    def label(self) -> dict[str, Any]:
        """Return the place as columns."""
        return {**vars(self), "data": Path(self.data).name}


def rows_of(place: Place, variants: list[str], kept: Path) -> Iterator[dict[str, Any]]:
    """Yield one row per variant."""
    base = place.recipe({})
    federation = federation_of(base)
    name = "-".join(str(part) for part in place.label.values())
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        transport = LocalTransport(job_of(base, federation), federation, Path(folder))
        warm = _warm_up(place, transport, federation, kept / f"{name}.warm", Path(folder))
        for variant in variants:
            row = _branch(VARIANTS[variant], place, warm, transport, federation, Path(folder))
            yield {**place.label, "variant": variant, **row}
        transport.close()


def _warm_up(
    place: Place, transport: LocalTransport, federation: Federation, file: Path, folder: Path
) -> Server:
    job = job_of(place.recipe({}), federation)
    server = job.server(transport.sites())
    if file.exists():
        server.params = unpack(file.read_bytes())["params"]
        return server
    for number in range(1, T1 + 1):
        Round(job, server, transport, number, Silent(), folder).play()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, pack({"params": server.params}))
    return server


def _branch(
    options: dict[str, Any],
    place: Place,
    warm: Server,
    transport: LocalTransport,
    federation: Federation,
    folder: Path,
) -> dict[str, Any]:
    job = job_of(place.recipe(options), federation)
    server = job.server(warm.sites, warm.params, copy.deepcopy(warm.state))
    scores = []
    for number in range(T1 + 1, T1 + AFTER + 1):
        Round(job, server, transport, number, Silent(), folder).play()
        rows = transport.score(server.params, "test", False)
        scores.append(summarise_scores(rows)["dice"])
    row: dict[str, Any] = {"dice": round(float(np.mean(scores[-LAST:])), 5)}
    if "rating" in server.state:
        mu = {site: one["mu"] for site, one in federation.notes["annotators"].items()}
        row.update(_facts(server, mu))
    return row


def _facts(server: Server, mu: dict[str, float]) -> dict[str, Any]:
    rating = quality.Rating.from_dict(server.state["rating"])
    cases = np.array([server.sites[site] for site in rating.sites], dtype=float)
    weights = rating.weights(rating.sites, cases)
    truth = np.array([mu[site] for site in rating.sites]) * 256 / server.format.shape[0]
    return {
        "bias": round(float(weights @ truth), 2),
        "bias_fedavg": round(float(cases / cases.sum() @ truth), 2),
        "effective_sites": round(quality.effective_sites(weights), 2),
        "largest_say": round(float(weights.max()), 3),
        "silenced": int((weights < 1e-9).sum()),
        "why": [part.grouping.reason for part in rating.parts],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return gains over FedAvg in points of Dice, by number of sites and place, as Markdown."""
    places: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        key = (row["sites"], row["data"], row["setting"], row["seed"])
        places.setdefault(key, {})[row["variant"]] = row
    whole = {key: found for key, found in places.items() if set(VARIANTS) <= set(found)}
    lines = [
        "| sites | data | setting | seeds | FedAvg, Dice % | paper: gain by seed; mean "
        "| safe: gain by seed; mean | of the paper's gain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for sites, data, setting in sorted({key[:3] for key in whole}):
        here = [found for key, found in sorted(whole.items()) if key[:3] == (sites, data, setting)]
        seeds = ", ".join(str(found["FedAvg"]["seed"]) for found in here)
        plain = np.mean([100 * found["FedAvg"]["dice"] for found in here])
        cells = [_gains(here, variant) for variant in ("paper", "safe")]
        means = [float(_gain(here, variant).mean()) for variant in ("safe", "paper")]
        cells.append(_part(*means))
        lines.append(
            f"| {sites} | {data} | {setting} | {seeds} | {plain:.1f} | {' | '.join(cells)} |"
        )
    lines += [
        "",
        "| sites | runs | paper: mean gain, worst | safe: mean gain, worst | largest say, paper, "
        "safe | of the paper's gain |",
        "|---|---|---|---|---|---|",
    ]
    for sites in sorted({key[0] for key in whole}):
        here = [found for key, found in whole.items() if key[0] == sites]
        gains = {variant: _gain(here, variant) for variant in ("paper", "safe")}
        cells = [f"{gain.mean():+.1f}, {gain.min():+.1f}" for gain in gains.values()]
        says = [max(found[variant]["largest_say"] for found in here) for variant in gains]
        cells.append(", ".join(f"{say:.0%}" for say in says))
        cells.append(_part(gains["safe"].mean(), gains["paper"].mean()))
        lines.append(f"| {sites} | {len(here)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _part(mine: float, theirs: float) -> str:
    """Return a gain as a part of the paper's, where that is half a point or more."""
    return f"{mine / theirs:.0%}" if theirs >= 0.5 else "-"


def _gain(places: list[dict[str, dict[str, Any]]], variant: str) -> Any:
    return np.array([100 * (found[variant]["dice"] - found["FedAvg"]["dice"]) for found in places])


def _gains(places: list[dict[str, dict[str, Any]]], variant: str) -> str:
    gain = _gain(places, variant)
    return f"{', '.join(f'{one:+.1f}' for one in gain)}; {gain.mean():+.1f}"


def main() -> None:
    """Run what is missing, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", nargs="+", default=["synthetic-skin"])
    parser.add_argument("--settings", nargs="+", default=["skin-ns", "skin-ne"])
    parser.add_argument("--sites", nargs="+", type=int, default=[3, 5, 8, 12, 20, 40])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--part", default="1/1", help="I/N: only every N-th place, from the I-th")
    parser.add_argument("--table", action="store_true", help="print what the file holds")
    arguments = parser.parse_args()
    if arguments.table:
        print(table([json.loads(line) for line in arguments.out.read_text().splitlines()]))
        return
    places = [
        Place(data, setting, sites, seed)
        for seed, sites, setting, data in product(
            arguments.seeds, arguments.sites, arguments.settings, arguments.data
        )
    ]
    part, parts = (int(number) for number in arguments.part.split("/"))
    for place in places[part - 1 :: parts]:
        done = set()
        if arguments.out.exists():
            found = [json.loads(line) for line in arguments.out.read_text().splitlines()]
            done = {row["variant"] for row in found if place.label.items() <= row.items()}
        missing = [one for one in arguments.variants if one not in done]
        if not missing:
            continue
        for row in rows_of(place, missing, arguments.out.with_suffix("")):
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(place.label, row["variant"], f"{row['dice']:.4f}", flush=True)


if __name__ == "__main__":
    main()
