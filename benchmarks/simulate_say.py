"""How often does a rule leave a federation worse off than FedAvg? Thousands of seeds, no training.

A warmed-up model is replaced by a stand-in: logits that fall off around the clean contour, moved by
what the annotators draw on average and bent at random, case by case. Everything else is real: masks
drawn by the contour evolution model, the survey's arithmetic, the edges in the images, the rules.
The figure of merit is the residual bias sum_i w_i mu_i, how many pixels too large (at 256 px) the
weighted annotator draws. "another border" paints a second, stronger border 14 px outside of the one
that is drawn, as a disc around its cup: what the edges say is then wrong.

    python benchmarks/simulate_say.py [--data synthetic-skin FOLDER] [--seeds 200] [--sites 3 5 ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

import offset_data
from feda3i import noise
from feda3i.core.cases import Cases
from feda3i.geometry import signed_distance
from feda3i.quality import (
    balance_sites,
    contour_offset,
    group_sites,
    learning_difficulty,
    measure_edges,
    site_offset,
    site_weights,
)
from feda3i.seeding import rng

SIZE, CASES = 32, 16
SCALE = 256 / SIZE
MU = np.arange(-26, 27, 2)  # px at 256: how an annotator draws
MODEL = np.arange(-18, 19, 3)  # px at 256: how far outside the clean contour the model's lies
DRAWN = 10  # sites per mu
SLOPE, BEND = 1.0, 4.0  # logit per px at 32 px; px at 256 that the model's contour wobbles
HARM = 1.2  # px: about a point of Dice where it was trained for real
OTHER, STEP = 14, 120  # px at 256 and grey levels of the other border
NESTED = "another border"

SETTINGS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "N_S": lambda g, k: _two_kinds(g, k, 20, 0.2),
    "N_E": lambda g, k: _two_kinds(g, k, 25, 0.8),
    "bell, sd 8": lambda g, k: g.normal(0, 8, k),
    "careful, sd 1": lambda g, k: g.normal(0, 1, k),
    "all over, U(0, 20)": lambda g, k: g.uniform(0, 20, k),
}


def _two_kinds(g: np.random.Generator, sites: int, most: float, share: float) -> NDArray:
    mu = g.uniform(0, most, sites)
    mu[g.permutation(sites)[round(share * sites) :]] *= -1
    return mu


@dataclass(frozen=True)
class Answers:
    """What sites answer: cases to models ``(mu, site, model, case, number)``, edges of sites."""

    cases: NDArray[np.float64]
    edges: NDArray[np.float64]

    @classmethod
    def measure(cls, data: str) -> Answers:
        """Draw masks, survey them against stand-in models, and measure them by the images."""
        pool, _ = offset_data._read("synthetic-skin" if data == NESTED else data, SIZE)
        cases = np.full((len(MU), DRAWN, len(MODEL), CASES, 3), np.nan)
        edges = np.full((len(MU), DRAWN, 2), np.nan)
        for i, mu in enumerate(MU):
            for k in range(DRAWN):
                draw = rng(5, "simulate", int(mu), k)
                some = pool.take(draw.choice(len(pool), CASES, replace=False))
                masks = _answer(some, mu, draw, cases[i, k])
                images = _with_other_border(some) if data == NESTED else some.images
                found = measure_edges(images, masks)
                edges[i, k] = found.offset * SCALE, found.error * SCALE
        return cls(cases, edges)

    def survey(self, draw: np.random.Generator, mu: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return ``(site, 2)`` difficulties, offsets and edge offsets for annotators ``mu``."""
        model = 0.9 * mu.mean() + draw.normal(0, 1.5)
        q, offset, edge = np.empty((3, len(mu), 2))
        for site, one in enumerate(mu):
            i, k = _nearest(MU, one + draw.uniform(-1, 1)), draw.integers(DRAWN)
            j = _nearest(MODEL, model + draw.normal(0, 3, CASES))
            cases = self.cases[i, k, j, np.arange(CASES)]
            q[site] = np.nanmean(cases[:, :2], axis=0)
            offset[site], edge[site] = site_offset(cases[:, 2]), self.edges[i, k]
        return q, offset, edge


def _answer(some: Cases, mu: int, draw: np.random.Generator, answers: NDArray) -> NDArray:
    """Draw the masks of one site, and fill in what each answers to each model."""
    masks = []
    for c, truth in enumerate(some.masks):
        model = noise.ContourEvolution(mu=mu / SCALE, sigma=draw.uniform(5, 10) / SCALE)
        mask = model(truth, draw)
        bend = ndimage.gaussian_filter(draw.normal(size=mask.shape), 3)
        away = signed_distance(truth) + bend * (BEND / SCALE / bend.std())
        for j, offset in enumerate(MODEL):
            logits = np.clip(-SLOPE * (away - offset / SCALE), -8, 8)
            found = contour_offset(mask, logits > 0) * SCALE
            answers[j, c] = *learning_difficulty(logits, mask), found
        masks.append(mask)
    return np.stack(masks)


def _with_other_border(some: Cases) -> NDArray[np.uint8]:
    away = np.stack([signed_distance(mask) for mask in some.masks]) * SCALE
    darker = STEP * (away < OTHER)[..., None] - STEP / 2
    return np.clip(some.images - darker, 0, 255).astype(np.uint8)


def _nearest(grid: NDArray, value: NDArray | float) -> NDArray[np.intp]:
    steps = np.round((value - grid[0]) / (grid[1] - grid[0])).astype(int)
    return np.clip(steps, 0, len(grid) - 1)


def simulate(answers: Answers, setting: str, sites: int, seeds: int) -> dict[str, NDArray]:
    """Return ``(seed,)`` residual biases and largest says, by rule."""
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        draw = rng(seed, "simulate", setting, sites)
        mu = SETTINGS[setting](draw, sites)
        q, offset, edge = answers.survey(draw, mu)
        ones = np.ones(sites)
        rules = {
            "FedAvg": ones / sites,
            "paper": site_weights(q, group_sites(q)),
            "no edges": balance_sites(*offset.T, ones).weights,
            "safe": balance_sites(*offset.T, ones, *edge.T).weights,
        }
        for rule, weights in rules.items():
            found.setdefault(rule, []).append(abs(float(weights @ mu)))
            found.setdefault(f"{rule}, say", []).append(float(weights.max()))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Print one table per data set and setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["synthetic-skin", NESTED])
    parser.add_argument("--seeds", type=int, default=200)
    default = [2, 3, 4, 5, 6, 8, 12, 20, 40, 60]
    parser.add_argument("--sites", nargs="+", type=int, default=default)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    arguments = parser.parse_args()
    for data in arguments.data:
        answers = Answers.measure(data)
        for setting in arguments.settings:
            print(f"\n**{Path(data).name}, {setting}**, {arguments.seeds} seeds\n")
            rules = ("paper", "no edges", "safe")
            heads = " | ".join(f"{rule}: bias, worse, largest say" for rule in rules)
            print(f"| sites | FedAvg's bias (px) | {heads} |\n|---|---|---|---|---|")
            for sites in arguments.sites:
                found = simulate(answers, setting, sites, arguments.seeds)
                cells = [_cell(found, rule) for rule in rules]
                bias = found["FedAvg"].mean()
                print(f"| {sites} | {bias:.1f} | {' | '.join(cells)} |", flush=True)


def _cell(found: dict[str, NDArray], rule: str) -> str:
    worse = (found[rule] > found["FedAvg"] + HARM).mean()
    return f"{found[rule].mean():.1f}, {worse:.0%}, {found[f'{rule}, say'].mean():.0%}"


if __name__ == "__main__":
    main()
