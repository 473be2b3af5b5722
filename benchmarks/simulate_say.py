"""How often does a rule leave a federation worse off than FedAvg? Thousands of seeds, no training.

A warmed-up model is replaced by a stand-in: logits that fall off around the clean contour, moved by
what the annotators draw on average and bent at random, case by case. Everything else is real: masks
drawn by the contour evolution model, the survey's arithmetic, the rules. The figure of merit is the
residual bias sum_i w_i mu_i, how many pixels too large (at 256 px) the weighted annotator draws.

    python benchmarks/simulate_say.py [--seeds 200] [--sites 2 3 4 5 ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from feda3i import noise, recipe
from feda3i.geometry import signed_distance
from feda3i.quality import (
    balance_sites,
    contour_offset,
    group_sites,
    learning_difficulty,
    site_offset,
    site_weights,
)
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

SIZE, CASES = 32, 16
SCALE = 256 / SIZE
MU = np.arange(-26, 27, 2)  # px at 256: how an annotator draws
MODEL = np.arange(-18, 19, 3)  # px at 256: how far outside the clean contour the model's lies
DRAWN = 32  # masks per mu
SLOPE, BEND = 1.0, 4.0  # logit per px at 32 px; px at 256 that the model's contour wobbles
HARM = 1.2  # px: about a point of Dice where it was trained for real

SETTINGS: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "N_S": lambda g, k: _two_kinds(g, k, 20, 0.2),
    "N_E": lambda g, k: _two_kinds(g, k, 25, 0.8),
    "bell, sd 8": lambda g, k: g.normal(0, 8, k),
    "careful, sd 1": lambda g, k: g.normal(0, 1, k),
}


def _two_kinds(g: np.random.Generator, sites: int, most: float, share: float) -> NDArray:
    mu = g.uniform(0, most, sites)
    mu[g.permutation(sites)[round(share * sites) :]] *= -1
    return mu


@dataclass(frozen=True)
class Answers:
    """What one case of an annotator answers to one model: ``(mu, model, mask, number)``."""

    values: NDArray[np.float64]

    @classmethod
    def measure(cls) -> Answers:
        """Draw masks and survey them against stand-in models."""
        overrides = ["data=synthetic-skin", f"data.size={SIZE}", "data.sites=4", "data.cases=24"]
        clean = federation_of(recipe.load(None, [*overrides, "data.test=4"])).train.masks
        values = np.full((len(MU), len(MODEL), DRAWN, 3), np.nan)
        for i, mu in enumerate(MU):
            for k in range(DRAWN):
                draw = rng(5, "simulate", int(mu), k)
                truth = clean[int(draw.integers(len(clean)))]
                model = noise.ContourEvolution(mu=mu / SCALE, sigma=draw.uniform(5, 10) / SCALE)
                mask = model(truth, draw)
                bend = ndimage.gaussian_filter(draw.normal(size=mask.shape), 3)
                away = signed_distance(truth) + bend * (BEND / SCALE / bend.std())
                for j, offset in enumerate(MODEL):
                    logits = np.clip(-SLOPE * (away - offset / SCALE), -8, 8)
                    found = contour_offset(mask, logits > 0) * SCALE
                    values[i, j, k] = *learning_difficulty(logits, mask), found
        return cls(values)

    def survey(self, draw: np.random.Generator, mu: NDArray) -> tuple[NDArray, NDArray]:
        """Return ``(site, 2)`` difficulties and ``(site, 2)`` offsets for annotators ``mu``."""
        model = 0.9 * mu.mean() + draw.normal(0, 1.5)
        q, offset = np.empty((len(mu), 2)), np.empty((len(mu), 2))
        for site, one in enumerate(mu):
            i = _nearest(MU, one + draw.uniform(-1, 1))
            j = _nearest(MODEL, model + draw.normal(0, 3, CASES))
            cases = self.values[i, j, draw.integers(0, DRAWN, CASES)]
            q[site] = np.nanmean(cases[:, :2], axis=0)
            offset[site] = site_offset(cases[:, 2])
        return q, offset


def _nearest(grid: NDArray, value: NDArray | float) -> NDArray[np.intp]:
    steps = np.round((value - grid[0]) / (grid[1] - grid[0])).astype(int)
    return np.clip(steps, 0, len(grid) - 1)


def simulate(answers: Answers, setting: str, sites: int, seeds: int) -> dict[str, NDArray]:
    """Return ``(seed,)`` residual biases and largest says, by rule."""
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        draw = rng(seed, "simulate", setting, sites)
        mu = SETTINGS[setting](draw, sites)
        q, offset = answers.survey(draw, mu)
        rules = {
            "FedAvg": np.full(sites, 1 / sites),
            "paper": site_weights(q, group_sites(q)),
            "safe": balance_sites(offset[:, 0], offset[:, 1], np.ones(sites)).weights,
        }
        for rule, weights in rules.items():
            found.setdefault(rule, []).append(abs(float(weights @ mu)))
            found.setdefault(f"{rule}, say", []).append(float(weights.max()))
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Print one table per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    default = [2, 3, 4, 5, 6, 8, 12, 20, 40, 60]
    parser.add_argument("--sites", nargs="+", type=int, default=default)
    arguments = parser.parse_args()
    answers = Answers.measure()
    for setting in SETTINGS:
        print(f"\n**{setting}**, {arguments.seeds} seeds\n")
        print(
            "| sites | FedAvg's bias (px) | paper: bias, worse, largest say "
            "| safe: bias, worse, largest say |\n|---|---|---|---|"
        )
        for sites in arguments.sites:
            found = simulate(answers, setting, sites, arguments.seeds)
            cells = []
            for rule in ("paper", "safe"):
                worse = (found[rule] > found["FedAvg"] + HARM).mean()
                say = found[f"{rule}, say"].mean()
                cells.append(f"{found[rule].mean():.1f}, {worse:.0%}, {say:.0%}")
            print(f"| {sites} | {found['FedAvg'].mean():.1f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
