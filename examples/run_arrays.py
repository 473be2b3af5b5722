"""A federated run from arrays in memory: python examples/run_arrays.py FOLDER."""

import sys
from pathlib import Path

import numpy as np

import feda3i


def cases(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images ``(case, 32, 32, 1)`` of bright discs, and their masks."""
    draw = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(32), np.arange(32)))
    centres = draw.uniform(12, 20, (count, 2, 1, 1))
    masks = (((grid - centres) ** 2).sum(1) < 64).astype(np.uint8)
    images = 60 + 120 * masks + draw.normal(0, 10, masks.shape)
    return images.clip(0, 255).astype(np.uint8)[..., None], masks


def main(folder: str | Path) -> float:
    """Train on three sites and return the Dice of the model that was saved."""
    images, masks = cases(12, seed=0)
    federation = feda3i.federation_of_arrays(images, masks, ["a", "b", "c"] * 4, *cases(4, seed=1))
    small = ["rounds=2", "model.width=4", "train.epochs=3", "train.batch=4", "engine.workers=1"]
    recipe = feda3i.recipe.load(None, ["method=fedavg", "title=discs", *small])
    return feda3i.run(recipe, folder, federation=federation).scores["dice"]


if __name__ == "__main__":
    print(main(sys.argv[1]))
