"""Hashes of what is the same to the bit on every processor: masks, cases, sites, regions, groups.

Write them again: python tests/golden/golden_bits.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from feda3i import quality
from feda3i.core.cases import Federation
from feda3i.data.partition import divide
from feda3i.noise.annotators import SETTINGS, annotators_of_setting, get_setting
from feda3i.noise.noisy_masks import REGISTRY
from feda3i.recipe import validate
from feda3i.seeding import derive, rng
from feda3i.simulation.annotation import annotators_of, with_noise
from feda3i.synthetic.federations import synthetic_breast, synthetic_skin

EXPECTED = Path(__file__).with_name("bits.json")
SITES = [f"site-{number:02}" for number in range(1, 21)]
SOURCES = ["a"] * 30 + ["b"] * 20 + ["c"] * 7


@cache
def skin(size: int = 64) -> Federation:
    """Return a few synthetic skin cases."""
    return synthetic_skin(sites=4, cases=4, test=2, size=size, seed=0)


def _cases(federation: Federation) -> list[np.ndarray]:
    return [part for c in (federation.train, federation.test) for part in (c.images, c.masks)]


def _noisy(name: str, **options: Any) -> list[np.ndarray]:
    noise = {"name": name, "setting": "skin-ne", **options}
    recipe = validate({"noise": noise, "data": {"name": "synthetic-skin"}})
    return [with_noise(skin(), recipe, annotators_of(recipe, skin())).train.masks]


def _annotators() -> list[np.ndarray]:
    found = [annotators_of_setting(get_setting(s), SITES, (64, 64), 0) for s in sorted(SETTINGS)]
    return [np.array([(a.mu, a.sigma) for a in drawn.values()]).round(9) for drawn in found]


def _partition(name: str) -> list[np.ndarray]:
    draw = rng(0, "golden", name)
    parts = divide(name, sources=SOURCES, folders=SOURCES, sites=6, rng=draw)
    return [np.asarray(parts[site], dtype=np.int64) for site in sorted(parts)]


def _regions() -> list[np.ndarray]:
    return [region for mask in skin().train.masks for region in quality.boundary_regions(mask)]


def _groups() -> list[np.ndarray]:
    draw = rng(0, "golden", "groups")
    larger = draw.normal((0.9, 0.3), 0.05, (9, 2))
    smaller = draw.normal((0.4, 0.7), 0.05, (6, 2))
    labels = quality.group_sites(np.concatenate([larger, smaller]), seed=0).labels
    return [np.array(labels, dtype="S8")]


def _seeds() -> list[np.ndarray]:
    whole = derive(3, "noise", "site-01", "case-7").to_bytes(16, "big")
    order = rng(3, "batches", 0, "site-01", 1).permutation(20).astype(np.int64)
    return [np.frombuffer(whole, np.uint8), order]


THINGS: dict[str, Callable[[], list[np.ndarray]]] = {
    "seeds": _seeds,
    "synthetic-skin": lambda: _cases(skin()),
    "synthetic-skin 256 px": lambda: _cases(skin(256)),
    "synthetic-breast": lambda: _cases(synthetic_breast(sites=4, cases=4, test=2, size=64)),
    **{f"noise {name}": partial(_noisy, name) for name in REGISTRY.names()},
    "noise contour faithful": partial(_noisy, "contour", mode="faithful"),
    "annotators": _annotators,
    **{f"partition {p}": partial(_partition, p) for p in ("iid", "by-source", "dirichlet")},
    "regions": _regions,
    "groups by mixture": _groups,
}


def bits_of(name: str) -> str:
    """Return the hash of a thing: kind, shape and bytes of its arrays."""
    sha = hashlib.sha256()
    for array in THINGS[name]():
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


if __name__ == "__main__":
    EXPECTED.write_text(json.dumps({name: bits_of(name) for name in THINGS}, indent=1) + "\n")
