"""A few rounds of every method in float64, as numbers that are sharp and portable at once.

The real engine plays them, on sites that draw differently and have unequal numbers of cases. In
float64 the rounding of another processor stays below 1e-7 after three rounds (float32 and Adam
amplify it to the second digit), while a changed formula moves some number by 1e-3 or more.

Write the row of a method, or of all: python tests/golden/golden_run.py [NAME ...]
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from feda3i.core.cases import Federation
from feda3i.engine.transport import one_thread
from feda3i.methods import REGISTRY
from feda3i.testing import tiny_federation
from short import SHORT
from stepping import Steps

EXPECTED = Path(__file__).with_name("expected.json")
ROUNDS = {"adele": 4, "fedcorr": 4}
"""Three rounds show every phase of a method, except where more are named here."""
LIFT = 0.45
"""Added to the last bias: some pixels are then foreground from the second round on."""
TOLERANCE = 5e-5
"""Relative: other processors differ by less than 1e-6, planted mistakes by more than 1e-3."""
SMALLEST = 1e-3
"""Numbers below this are compared as if they were as large."""
DRAWN = {"site-1": 2, "site-2": 1, "site-3": -1, "site-4": 3, "site-5": None}
"""How many pixels too far out each site draws; ``None`` draws inside out."""
CASES = {"site-1": 4, "site-2": 3, "site-3": 3, "site-4": 2, "site-5": 2}
VARIANTS: dict[str, tuple[str, dict[str, Any], int]] = {
    **{name: (name, SHORT.get(name, {}), 1) for name in REGISTRY.names()},
    "fedcorr": ("fedcorr", {"t1": 2, "t2": 1}, 1),
    "feddm": ("feddm", {"probes": 4, "stop": 4, "ratio": 0.1}, 1),
    "fedavg, dice": ("fedavg", {"loss": "dc"}, 1),
    "feda3i, two classes": ("feda3i", {"t1": 1}, 2),
}
"""Method, options and foreground classes of each row."""
VOID = (".0.bias", ".3.bias")
"""Biases before BatchNorm, which takes them out again: Adam makes steps of their rounding."""
UNTOLD = ("seconds", "round", "said")
"""Of an event: how long it took, and sentences made of numbers that are there, too."""

Row = dict[str, Any]


def federation(classes: int = 1) -> Federation:
    """Return discs at five sites whose masks are dilated or eroded, exact to the pixel."""
    clean = tiny_federation(sites=len(DRAWN), classes=classes)
    masks = clean.train.masks.copy()
    for site, offset in DRAWN.items():
        for case in clean.sites[site]:
            masks[case] = _drawn(masks[case], offset)
    sites = {site: index[: CASES[site]] for site, index in clean.sites.items()}
    return replace(clean.with_masks(masks), sites=sites)


def _drawn(mask: np.ndarray, offset: int | None) -> np.ndarray:
    if offset is None:
        return np.where(mask > 0, 0, 1).astype(mask.dtype)
    change = cv2.dilate if offset > 0 else cv2.erode
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    return np.asarray(change(mask, cross, iterations=abs(offset)))


@contextmanager
def float64() -> Iterator[None]:
    """Let networks, cases and parameters be float64 within this context."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with one_thread():
            yield
    finally:
        torch.set_default_dtype(before)


def row_of(name: str, jitter: float = 0.0) -> Row:
    """Return the numbers of a row of ``VARIANTS`` by path, e.g. ``"2.weights.site-1"``.

    ``jitter`` disturbs the first weights relatively, to see how much rounding would matter.
    """
    method, options, classes = VARIANTS[name]
    found: Row = {}
    with float64(), tempfile.TemporaryDirectory(prefix="feda3i-golden-") as folder:
        rounds = ROUNDS.get(name, 3)
        steps = Steps(Path(folder), method, options, federation(classes), rounds=rounds)
        steps.values[:] *= 1 + jitter * np.random.default_rng(0).normal(size=steps.values.shape)
        for entry in steps.server.layout.floats:
            if entry.name.endswith("outc.bias"):
                steps.values[entry.start : entry.stop] += LIFT
        start = steps.values.copy()
        for number in range(1, rounds + 1):
            event = steps.play()
            told = {k: v for k, v in event.items() if not k.endswith(UNTOLD)}
            found |= dict(_numbers(str(number), told))
            found |= dict(_numbers(f"{number}.model", _moved_by(steps, start)))
        predictor, images = steps.station().predictor, steps.federation.test.images
        seen = predictor.probabilities(images, steps.server.params)
        found |= dict(_numbers("end.test", seen))
        models = steps.method.models(steps.server)
        if len(models) > 1:
            waves = {site: wave(params.values - start) for site, params in models.items()}
            found |= dict(_numbers("end.models", waves))
        for site in steps.federation.names():
            found |= dict(_numbers(f"end.memory.{site}", steps.memory(site)))
    return found


def _moved_by(steps: Steps, start: np.ndarray) -> dict[str, Any]:
    """Return how far weights and running statistics are from where they started, by stage."""
    layout, moved = steps.server.layout, steps.values - start
    stages: list[list[np.ndarray]] = [[] for _ in layout.stages]
    statistics = []
    for entry in layout.floats:
        part = moved[entry.start : entry.stop]
        if not entry.is_trained:
            statistics.append(part)
        elif not entry.name.endswith(VOID):
            stages[entry.stage].append(part)
    return {
        "stages": [float(np.linalg.norm(np.concatenate(parts))) for parts in stages],
        "wave": wave(np.concatenate([part for parts in stages for part in parts])),
        "statistics": float(np.linalg.norm(np.concatenate(statistics))),
        "counts": int(steps.server.params.counts.sum()),
    }


def wave(values: np.ndarray) -> float:
    """Return a sum with changing signs: exchanging or negating entries moves it."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    return float(flat @ np.where(np.arange(flat.size) * 0.7548776662 % 1.0 < 0.5, 1.0, -1.0))


def _numbers(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is at a path as single numbers and texts; long lists as a few sums."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(f"{path}.{key}", inner)
    elif isinstance(value, np.ndarray) and value.dtype.kind not in "f":
        yield path, hashlib.sha256(np.ascontiguousarray(value)).hexdigest()[:16]
    elif isinstance(value, np.ndarray) or (isinstance(value, list) and len(value) > 12):
        flat = np.asarray(value, dtype=np.float64).reshape(-1)
        yield f"{path}.mean", float(flat.mean())
        yield f"{path}.norm", float(np.linalg.norm(flat))
        yield f"{path}.wave", wave(flat)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _numbers(f"{path}.{place}", inner)
    else:
        yield path, value


def distance(found: Any, expected: Any) -> float:
    """Return how far two entries are apart: relative for numbers, 0 or infinite for the rest."""
    if isinstance(found, float) and isinstance(expected, float):
        if math.isnan(found) and math.isnan(expected):
            return 0.0
        return abs(found - expected) / max(abs(expected), SMALLEST)
    return 0.0 if found == expected else math.inf


def compare(found: Row, expected: Row) -> dict[str, tuple[float, Any, Any]]:
    """Return the entries that moved, farthest first: ``path -> (distance, expected, found)``."""
    moved = {}
    for path in sorted({*found, *expected}):
        ours, theirs = found.get(path), expected.get(path)
        if not (far := distance(ours, theirs)) <= TOLERANCE:
            moved[path] = far, theirs, ours
    return dict(sorted(moved.items(), key=lambda item: -item[1][0]))


def as_expected(row: Row) -> Row:
    """Return a row as it is written down: ten digits are more than the tolerance asks for."""
    return {k: float(f"{v:.10g}") if isinstance(v, float) else v for k, v in row.items()}


if __name__ == "__main__":
    rows = json.loads(EXPECTED.read_text("utf-8"))
    for chosen in sys.argv[1:] or VARIANTS:
        keys = [key for key in VARIANTS if chosen in (key, VARIANTS[key][0])]
        rows |= {key: as_expected(row_of(key)) for key in keys}
    text = json.dumps({key: rows[key] for key in VARIANTS if key in rows}, indent=1)
    EXPECTED.write_text(text + "\n")
