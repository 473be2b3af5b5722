"""What the published noise does to small masks, drawn at their size and drawn at 256 px.

Prints Dice to the clean masks and the share of masks that come out empty, for a recipe's cases and
annotators at 48 and 64 px.

    python benchmarks/drawn_at.py skin_ns-small data=DIR
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from feda3i import recipe
from feda3i.noise.model import NoiseWarning
from feda3i.simulation.federation import federation_of

HOW = {"at its size": [], "drawn at 256 px": ["noise.drawn_at=256"]}


def main() -> None:
    """Print one line per size and way."""
    name, *changes = sys.argv[1:]
    warnings.simplefilter("ignore", NoiseWarning)
    for size in (48, 64):
        for way, more in HOW.items():
            wanted = [*changes, f"data.size={size}", "data.seed=0", "noise.seed=0"]
            made = federation_of(recipe.load(name, [*wanted, "noise.mode=faithful", *more]))
            empty = float(np.mean([not mask.any() for mask in made.train.masks]))
            dice = made.notes["mask_dice"]
            print(f"{size} px, {way}: Dice {dice:.3f}, empty {empty:.1%}", flush=True)


if __name__ == "__main__":
    main()
