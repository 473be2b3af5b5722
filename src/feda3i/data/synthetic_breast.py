"""Synthetic breast ultrasound: layered tissue, speckle and hypoechoic masses from three scanners.

Echo strength is summed in decibels (tissue, mass, shadow), multiplied by Rayleigh speckle and shown
through the scanner's dynamic range: the order in which a real image comes about.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from feda3i.data.base import Images, Masks
from feda3i.data.fields import Array, blob, pixel_grid, rise, smooth_fields, to_bytes
from feda3i.errors import RecipeError, nearest


@dataclass(frozen=True)
class Scanner:
    """What makes the images of one device look alike.

    Parameters
    ----------
    grains
        Speckle grains down and across the frame.
    looks
        How many independent speckle images are averaged: more is smoother.
    decibels
        Dynamic range shown between black and white.
    gain
        Mean brightness of glandular tissue, 0..1.
    depth
        Relative depth of the frame: more shows more of the muscle and makes masses smaller.
    loss
        Decibels lost from top to bottom after the device's own correction.
    overlay
        What the device draws over the picture.
    """

    grains: tuple[int, int]
    looks: int
    decibels: float
    gain: float
    depth: float
    loss: float
    overlay: str


SCANNERS = {
    "scanner-a": Scanner((150, 100), 2, 46.0, 0.50, 1.0, 5.0, "ticks"),
    "scanner-b": Scanner((95, 60), 1, 38.0, 0.56, 1.15, 9.0, "text"),
    "scanner-c": Scanner((120, 45), 4, 60.0, 0.36, 0.85, 7.0, "bar"),
}
SOURCES = tuple(SCANNERS)


def breast_case(rng: np.random.Generator, size: int, source: str) -> tuple[Images, Masks]:
    """Draw one ultrasound-like case as one of the three scanners would show it.

    Returns
    -------
    The image ``(size, size, 1)`` and its mask ``(size, size)`` of 0 and 1.

    >>> image, mask = breast_case(np.random.default_rng(0), 48, "scanner-a")
    >>> image.shape, mask.shape, image.dtype
    ((48, 48, 1), (48, 48), dtype('uint8'))
    """
    if source not in SCANNERS:
        raise RecipeError(
            f"unknown source '{source}'{nearest(source, SOURCES)} Known: {', '.join(SOURCES)}"
        )
    scanner = SCANNERS[source]
    echo, depth = _tissue(rng, size, scanner)
    inside, radius = _mass(rng, size, scanner)
    echo = _insert(rng, size, echo, inside, radius)
    echo += _shadows(rng, size)
    level = echo - scanner.loss * depth + _speckle(rng, size, scanner)
    shown = scanner.gain + level / scanner.decibels + rng.normal(0, 0.03)
    image = _overlay(rng, size, np.clip(shown, 0.0, 1.0), scanner)
    return to_bytes(image)[..., None], (inside > 0).astype(np.uint8)


def _tissue(rng: np.random.Generator, size: int, scanner: Scanner) -> tuple[Array, Array]:
    """Return echo strength in decibels about glandular tissue, and depth 0..1, ``(size, size)``."""
    y, _ = pixel_grid(size)
    # Layers follow bent lines: one depth coordinate is warped for all of them.
    bend = smooth_fields(rng, 1, (2, 3), size)[0]
    swell = smooth_fields(rng, 1, (4, 5), size)[0]
    depth = y * scanner.depth + 0.035 * bend * np.minimum(1, 4 * y) + 0.012 * swell
    fat, gland = rng.uniform(0.10, 0.24), rng.uniform(0.55, 0.80)
    below = rise(depth - fat, 0.02) - rise(depth - gland, 0.02)
    muscle = rise(depth - gland, 0.02)
    echo = -9.0 + 9.0 * below + rng.uniform(-4, 2) * muscle
    echo += 12 * np.exp(-(((y - 0.02) / 0.022) ** 2)) + _lines(rng, size, depth, below, muscle)
    for edge in (fat, gland, gland + rng.uniform(0.08, 0.16)):
        echo += rng.uniform(3, 9) * np.exp(-(((depth - edge) / rng.uniform(0.006, 0.015)) ** 2))
    patches = smooth_fields(rng, 2, (9, 6), size)
    lobules = rise(np.abs(patches[0]) - 0.25, 0.15) - 0.7
    echo += 5 * (1 - below - muscle) * lobules + 3.5 * below * patches[1]
    return np.asarray(echo), y + 0 * bend


def _lines(rng: np.random.Generator, size: int, depth: Array, gland: Array, muscle: Array) -> Array:
    """Return the bright, mostly level strands: ligaments, ducts and muscle fibres."""
    strands = smooth_fields(rng, 2, (30, 6), size)
    fine = smooth_fields(rng, 1, (60, 9), size)[0]
    bright = np.maximum(strands[0] + 0.5 * fine - 0.6, 0) ** 1.2
    fibres = np.maximum(strands[1] + 0.4 * fine - 0.5, 0)
    return np.asarray(5 * bright * (0.35 + 0.65 * gland) + 5 * fibres * muscle)


def _mass(rng: np.random.Generator, size: int, scanner: Scanner) -> tuple[Array, float]:
    area = np.exp(rng.uniform(np.log(0.02), np.log(0.25))) / scanner.depth
    radius = float(np.sqrt(min(area, 0.25) / np.pi))
    spread = 0.22 if rng.random() < 0.12 else 0.11
    column = float(np.clip(rng.normal(0.5, spread), 0.06, 0.94))
    row = float(np.clip(rng.normal(0.42, 0.09), 0.6 * radius + 0.1, 0.85))
    angular = rng.random() < 0.4
    inside, _ = blob(
        rng,
        size,
        centre=(row, column),
        radius=radius,
        aspect=float(rng.uniform(1.0, 1.3) if angular else rng.uniform(1.15, 2.1)),
        tilt=float(rng.normal(0, 0.6 if angular else 0.2)),
        rough=float(rng.uniform(0.9, 1.7) if angular else rng.uniform(0.15, 0.6)),
        lobes=int(rng.integers(0, 4) if angular else rng.integers(0, 2)),
    )
    return inside, radius


def _insert(
    rng: np.random.Generator, size: int, echo: Array, inside: Array, radius: float
) -> Array:
    """Put the mass in: weaker echoes, a border of uneven width, a rim, and what lies behind it."""
    broad = smooth_fields(rng, 3, 5, size)
    ragged = smooth_fields(rng, 1, (22, 16), size)[0]
    width = (0.004 + 0.09 * radius * np.exp(rng.normal(0, 0.4))) * np.exp(0.55 * broad[0])
    body = rise(inside + width * (0.4 * broad[1] + rng.uniform(0.2, 0.6) * ragged), width)
    cyst = rng.random() < 0.15
    drop = rng.uniform(22, 32) if cyst else rng.uniform(7, 17)
    own = -drop + (0.5 if cyst else 2.0) * (broad[2] + 0.5 * ragged)
    rim = np.exp(-(((inside + 1.3 * width) / (1.2 * width)) ** 2)) * rng.uniform(0, 5)
    through = np.cumsum(body, axis=0) / size
    behind = through * (1 - body)
    kind = 1.0 if cyst else rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.25, 0.35])
    posterior = kind * rng.uniform(25, 70) * behind / (1 + (0 if kind < 0 else 3) * behind)
    return np.asarray(echo * (1 - 0.85 * body) + body * own + rim + np.clip(posterior, -20, 9))


def _shadows(rng: np.random.Generator, size: int) -> Array:
    """Return vertical bands in decibels: poor contact, ligaments and the fading at both sides."""
    y, x = pixel_grid(size)
    bands = smooth_fields(rng, 1, (1, 9), size)[0]
    side = np.abs(x - rng.normal(0.5, 0.08)) - rng.uniform(0.42, 0.6)
    start = rng.uniform(0, 0.5)
    dark = -rng.uniform(0, 4) * np.maximum(bands - 0.4, 0) * rise(y - start, 0.1)
    return np.asarray(dark - 12 * rise(side, 0.05))


def _speckle(rng: np.random.Generator, size: int, scanner: Scanner) -> Array:
    """Return speckle in decibels: Rayleigh amplitudes whose grains widen with depth."""
    y, _ = pixel_grid(size)
    down, across = scanner.grains
    power = np.zeros((size, size))
    for _ in range(scanner.looks):
        near = smooth_fields(rng, 2, (down, across), size)
        far = smooth_fields(rng, 2, (down, across // 2), size)
        share = np.clip(0.15 + 0.9 * y, 0, 1)
        parts = near * np.sqrt(1 - share) + far * np.sqrt(share)
        power += (parts * parts).sum(axis=0)
    return np.asarray(10 * np.log10(power / (2 * scanner.looks) + 0.02))


def _overlay(rng: np.random.Generator, size: int, image: Array, scanner: Scanner) -> Array:
    """Draw what the device adds: depth ticks, text or a grey bar. Nothing points at the mass."""
    side = size * -(-256 // size)
    drawing = np.zeros((side, side), np.uint8)
    unit = side / 256
    if scanner.overlay == "ticks":
        for k in range(int(rng.integers(4, 9)), 256, 24):
            cv2.line(
                drawing,
                (int(250 * unit), int(k * unit)),
                (side, int(k * unit)),
                150,
                max(1, int(unit)),
            )
    if scanner.overlay == "text":
        for row in range(int(rng.integers(1, 3))):
            words = " ".join(rng.choice(["BREAST", "RIGHT", "LEFT", "12H", "3H", "RAD", "ARAD"], 2))
            place = (int(rng.integers(8, 120) * unit), int((230 + 16 * row) * unit))
            cv2.putText(
                drawing,
                words,
                place,
                cv2.FONT_HERSHEY_SIMPLEX,
                0.42 * unit,
                220,
                max(1, int(unit)),
                cv2.LINE_AA,
            )
    if scanner.overlay == "bar":
        top, height = int(8 * unit), int(120 * unit)
        ramp = np.linspace(250, 20, height).astype(np.uint8)
        drawing[top : top + height, int(246 * unit) : int(251 * unit)] = ramp[:, None]
    cover = cv2.resize(drawing, (size, size), interpolation=cv2.INTER_AREA) / 255.0
    return np.asarray(np.maximum(image, cover))
