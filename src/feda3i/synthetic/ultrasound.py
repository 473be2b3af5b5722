"""Synthetic breast ultrasound: layered tissue, speckle and hypoechoic masses from three scanners.

Echo strength is summed in decibels (tissue, mass, shadow), multiplied by Rayleigh speckle and shown
through the scanner's dynamic range: the order in which a real image comes about.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from feda3i.core.cases import Images, Masks
from feda3i.errors import unknown
from feda3i.synthetic.fields import (
    Array,
    blob,
    canvas,
    pixel_grid,
    reduced,
    rise,
    smooth_fields,
    to_bytes,
)


@dataclass(frozen=True)
class Scanner:
    """What makes the images of one device look alike."""

    grains: tuple[int, int]  # speckle grains down and across the frame
    looks: int  # how many independent speckle images are averaged: more is smoother
    decibels: float  # dynamic range shown between black and white
    gain: float  # mean brightness of glandular tissue, 0..1
    depth: float  # relative, of the frame: more shows more of the muscle, and smaller masses
    loss: float  # decibels lost from top to bottom after the device's own correction
    overlay: str  # what the device draws over the picture


SCANNERS = {
    "scanner-a": Scanner((150, 100), 2, 44.0, 0.50, 1.0, 5.0, "ticks"),
    "scanner-b": Scanner((95, 60), 1, 38.0, 0.58, 1.15, 6.0, "text"),
    "scanner-c": Scanner((120, 45), 4, 44.0, 0.40, 0.85, 7.0, "bar"),
}
SOURCES = tuple(SCANNERS)


def breast_case(rng: np.random.Generator, size: int, source: str) -> tuple[Images, Masks]:
    """Draw an image ``(size, size, 1)`` as one of the scanners would show it, and its mask.

    >>> image, mask = breast_case(np.random.default_rng(0), 48, "scanner-a")
    >>> image.shape, mask.shape, image.dtype
    ((48, 48, 1), (48, 48), dtype('uint8'))
    """
    if source not in SCANNERS:
        raise unknown("source", source, SOURCES)
    scanner = SCANNERS[source]
    echo, gland = _tissue(rng, size, scanner)
    inside, radius = _mass(rng, size, gland)
    level = _insert(rng, size, echo, inside, radius)
    level += _shadows(rng, size) - scanner.loss * pixel_grid(size)[0]
    gain = scanner.gain + rng.normal(0, 0.04)
    drawn = _overlay(rng, size, scanner)
    # Speckle comes last: it is the one part whose number of draws depends on the size.
    level += _speckle(rng, size, scanner)
    image = to_bytes(np.maximum(gain + level / scanner.decibels, drawn))
    return image[..., None], (inside > 0).astype(np.uint8)


def _tissue(
    rng: np.random.Generator, size: int, scanner: Scanner
) -> tuple[Array, tuple[float, float]]:
    """Return echo in decibels about glandular tissue, and the rows between which the gland lies."""
    y, _ = pixel_grid(size)
    # Layers and strands follow bent lines: one depth coordinate is warped for all of them.
    bend = smooth_fields(rng, 1, (2, 3), size)[0]
    swell = smooth_fields(rng, 1, (4, 5), size)[0]
    depth = y * scanner.depth + (0.035 * bend + 0.02 * swell) * np.minimum(1, 4 * y)
    top, bottom = rng.uniform(0.10, 0.24), rng.uniform(0.58, 0.80)
    muscle = rise(depth - bottom, 0.02)
    gland = rise(depth - top, 0.02) - muscle
    echo = -9.0 + 9.0 * gland + rng.uniform(-4, 2) * muscle + _strands(rng, size, gland, muscle)
    echo += 12 * np.exp(-(((y - 0.02) / 0.022) ** 2))
    for edge in (top, bottom, bottom + rng.uniform(0.08, 0.16)):
        echo += rng.uniform(3, 9) * np.exp(-(((depth - edge) / rng.uniform(0.006, 0.015)) ** 2))
    lobules, islands = smooth_fields(rng, 2, (9, 6), size)
    fat = 1 - gland - muscle
    echo += 5 * fat * (rise(np.abs(lobules) - 0.25, 0.15) - 0.7)
    # Fat among the gland: dark islands that look like masses and are none.
    echo += gland * (2.5 * islands - rng.uniform(0, 7) * rise(lobules - 1.2, 0.25))
    return np.asarray(echo), (top / scanner.depth, bottom / scanner.depth)


def _strands(rng: np.random.Generator, size: int, gland: Array, muscle: Array) -> Array:
    """Return the bright, mostly level lines: ligaments, ducts and muscle fibres."""
    ducts, fibres = smooth_fields(rng, 2, (28, 5), size)
    fine = smooth_fields(rng, 1, (60, 9), size)[0]
    busy = rng.uniform(4, 10)
    bright = busy * np.maximum(ducts + 0.5 * fine - 0.5, 0) * (0.35 + 0.65 * gland)
    return np.asarray(bright + 5 * np.maximum(fibres + 0.4 * fine - 0.5, 0) * muscle)


def _mass(rng: np.random.Generator, size: int, gland: tuple[float, float]) -> tuple[Array, float]:
    """Draw the shape: level ovals (benign) or angular, lobed ones (malignant) in the gland."""
    radius = float(np.sqrt(np.exp(rng.uniform(np.log(0.02), np.log(0.20))) / np.pi))
    column = float(np.clip(rng.normal(0.5, 0.22 if rng.random() < 0.12 else 0.11), 0.06, 0.94))
    middle = rng.normal(0.4 * gland[0] + 0.6 * gland[1], 0.06)
    row = float(np.clip(middle, 0.7 * radius + 0.08, 0.8))
    angular = rng.random() < 0.4
    aspect = rng.uniform(1.0, 1.3) if angular else rng.uniform(1.15, 2.1)
    tilt = rng.normal(0, 0.6 if angular else 0.2)
    rough = rng.uniform(0.9, 1.7) if angular else rng.uniform(0.15, 0.6)
    lobes = int(rng.integers(0, 3 if angular else 2))
    return blob(rng, size, (row, column), radius, aspect, tilt, rough, lobes)[0], radius


def _insert(
    rng: np.random.Generator, size: int, echo: Array, inside: Array, radius: float
) -> Array:
    """Put the mass in: weaker echoes, a border of uneven width, a rim, and what lies behind it."""
    broad = smooth_fields(rng, 3, 5, size)
    ragged = smooth_fields(rng, 1, (22, 16), size)[0]
    width = 0.007 + 0.13 * radius * np.exp(rng.normal(0, 0.35) + 0.55 * broad[0])
    body = rise(inside + width * (0.3 * broad[1] + rng.uniform(0.2, 0.6) * ragged), width)
    cyst = rng.random() < 0.12
    drop = rng.uniform(20, 28) if cyst else rng.uniform(9, 18)
    own = -drop + (0.5 if cyst else 2.0) * (broad[2] + 0.5 * ragged)
    rim = rng.uniform(0, 4) * np.exp(-((inside / width + 1.3) ** 2))
    behind = _behind(rng, size, inside, radius, cyst)
    return np.asarray(echo * (1 - 0.85 * body) + body * own + rim + behind)


def _behind(rng: np.random.Generator, size: int, inside: Array, radius: float, cyst: bool) -> Array:
    """Return decibels lost in the shadow of a dense mass or gained behind a clear one."""
    kind = 1.0 if cyst else rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.25, 0.35])
    veil = rise(inside - 0.1 * radius, 0.22 * radius)
    passed = np.cumsum(veil, axis=0) / size / radius
    strength = kind * (rng.uniform(5, 16) if kind < 0 else rng.uniform(3, 8))
    return np.asarray(strength * (1 - np.exp(-passed)) * (1 - veil))


def _shadows(rng: np.random.Generator, size: int) -> Array:
    """Return vertical bands in decibels: poor contact, ligaments and the fading at both sides."""
    y, x = pixel_grid(size)
    bands = smooth_fields(rng, 1, (1, 9), size)[0]
    side = np.abs(x - rng.normal(0.5, 0.08)) - rng.uniform(0.45, 0.65)
    start = rng.uniform(0, 0.5)
    dark = rng.uniform(0, 5) * np.maximum(bands - 0.4, 0) * rise(y - start, 0.1)
    return np.asarray(-dark - 10 * rise(side, 0.06))


def _speckle(rng: np.random.Generator, size: int, scanner: Scanner) -> Array:
    """Return speckle in decibels: Rayleigh amplitudes whose grains widen with depth.

    A frame with fewer pixels than grains shows means of several grains: the spread shrinks with the
    square root of their number, the level stays.
    """
    y, _ = pixel_grid(size)
    down, across = (min(grains, size) for grains in scanner.grains)
    near = smooth_fields(rng, 2 * scanner.looks, (down, across), size)
    far = smooth_fields(rng, 2 * scanner.looks, (down, across // 2), size)
    share = np.clip(0.15 + 0.9 * y, 0, 1)
    near *= np.sqrt(1 - share)
    far *= np.sqrt(share)
    near += far
    near *= near
    decibels = 10 * np.log10(near.mean(axis=0) + 0.05)
    shown = np.sqrt(down * across / (scanner.grains[0] * scanner.grains[1]))
    level = decibels.mean()
    return np.asarray(level + (decibels - level) * shown)


def _overlay(rng: np.random.Generator, size: int, scanner: Scanner) -> Array:
    """Draw what the device adds: depth ticks, text or a grey bar. Nothing points at the mass."""
    drawing, side = canvas(size)
    unit = side / 256
    line = max(1, int(unit))
    if scanner.overlay == "ticks":
        for row in range(int(rng.integers(4, 24)), 256, 24):
            start, end = ((int(column * unit), int(row * unit)) for column in (250, 256))
            cv2.line(drawing, start, end, 150, line)
    elif scanner.overlay == "text":
        words = rng.permutation(["BREAST", "RIGHT", "3 H", "RAD", "QUE", "12.1mm"])[:4]
        for row in range(int(rng.integers(1, 3))):
            place = (int(rng.integers(8, 120) * unit), int((230 + 16 * row) * unit))
            text = " ".join(words[2 * row : 2 * row + 2])
            font = cv2.FONT_HERSHEY_SIMPLEX
            cv2.putText(drawing, text, place, font, 0.42 * unit, 220, line, cv2.LINE_AA)
    else:
        ramp = np.linspace(250, 20, int(120 * unit)).astype(np.uint8)
        top = int(8 * unit)
        drawing[top : top + len(ramp), int(246 * unit) : int(251 * unit)] = ramp[:, None]
    return reduced(drawing, size)
