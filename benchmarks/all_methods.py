"""Run every method on one recipe with the same cases and noise, and print a table.

"All finite": the losses of all rounds, all scores, and the parameters of the final model; the exit
code is 1 if any is not.

Run: python benchmarks/all_methods.py OUT RECIPE [key=value ...] [--methods NAME ...]
A finished run in OUT is not repeated; an interrupted one goes on.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from feda3i import recipe
from feda3i.engine.run import resume, run
from feda3i.engine.run_folder import RunFolder
from feda3i.log.events import read_events
from feda3i.methods import REGISTRY
from feda3i.simulation.federation import federation_of


def play(out: Path, chosen: recipe.Recipe, name: str) -> dict[str, float]:
    """Run one method, or go on with it, and return its scores."""
    path = out / name
    if (path / "DONE").exists():
        folder = RunFolder.open(path)
    elif (path / "manifest.json").exists():
        folder = RunFolder.open(resume(path).path)
    else:
        folder = RunFolder.open(run(chosen, path).path)
    rounds = list(read_events(folder.events, "round"))
    # Events hold None where a number was not finite.
    losses = [number(event["loss"]) for event in rounds]
    dice = [number(event["dice"]) for event in rounds if "dice" in event]
    weights = [value for value in load_file(folder.model).values() if value.dtype.kind == "f"]
    return {
        "dice": dice[-1],
        "last": float(np.mean(dice[-3:])),
        "best": max(dice),
        "hd95": number(rounds[-1]["hd95"]),
        "finite": all(np.isfinite(values).all() for values in (losses, dice, *weights)),
    }


def number(value: float | None) -> float:
    return math.nan if value is None else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--methods", nargs="+", default=[*REGISTRY.names(), "fedprox,mu=0.001"])
    arguments = parser.parse_args()
    base = recipe.load(arguments.recipe, arguments.overrides)
    federation = federation_of(base)
    share = float((federation.test.masks > 0).mean())
    print(f"{arguments.recipe} {' '.join(arguments.overrides)}")
    print(f"all-foreground Dice (chance) {2 * share / (1 + share):.3f}\n")
    print("| method | Dice, last | Dice, mean of last three scored | best | HD95 | all finite |")
    print("|---|---|---|---|---|---|", flush=True)
    failed = 0
    for method in arguments.methods:
        name, *options = method.split(",")
        # As on the command line: method=NAME takes the recipe's options for it, ours come last.
        changes = [] if name == base.method.name else [f"method={name}"]
        changes += [f"method.{option}" for option in options]
        chosen = recipe.load(arguments.recipe, [*arguments.overrides, *changes])
        row = play(arguments.out, chosen, method)
        print(
            f"| {method} | {row['dice']:.3f} | {row['last']:.3f} | {row['best']:.3f} "
            f"| {row['hd95']:.1f} | {'yes' if row['finite'] else 'NO'} |",
            flush=True,
        )
        failed += not row["finite"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
