"""b0 of a recipe's data: the offset of 32 trusted masks, for ``redraw.b0``.

The masks are clean ones of training cases that no site of the recipe has. Prints b0 and its
standard error in px at 256.

    python benchmarks/trusted_offset.py skin_ns-small data=DIR data.seed=0
    python benchmarks/trusted_offset.py breast_ns-small data=DIR data.seed=0
"""

from __future__ import annotations

import sys

from feda3i import quality, recipe
from feda3i.core.cases import Cases
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

TRUSTED = 32
MORE = ("data.sites=3", "data.cases=400")
"""A division that holds cases beyond those of the recipe's sites."""


def trusted_cases(name: str, changes: list[str]) -> Cases:
    """Return cases with clean masks that neither the recipe's sites nor its test set have."""
    small = federation_of(recipe.load(name, [*changes, "noise=none"]))
    large = federation_of(recipe.load(name, [*changes, *MORE, "noise=none"]))
    used = {*small.train.ids, *small.test.ids}
    free = [k for k, case in enumerate(large.train.ids) if case not in used]
    if len(free) < TRUSTED:
        raise SystemExit(f"expected {TRUSTED} cases beyond the sites', found {len(free)}")
    return large.train.take(rng(0, "trusted").permutation(free)[:TRUSTED])


def main() -> None:
    """Print b0 of a recipe."""
    name, *changes = sys.argv[1:]
    cases = trusted_cases(name, changes)
    found = quality.measure_edges(cases.images, cases.masks)
    scale = max(cases.shape) / quality.SIDE
    print(f"b0 {found.offset / scale:+.2f} px, error {found.error / scale:.2f} px {found.reason}")


if __name__ == "__main__":
    main()
