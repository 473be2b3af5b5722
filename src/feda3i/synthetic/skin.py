"""Synthetic dermoscopy: pigmented lesions with soft, uneven borders on skin of any tone.

Colour follows absorption: what is seen is the skin's colour times ``exp(-density * absorption)``,
with melanin, blood and deep (bluish) pigment each absorbing red, green and blue in its own way.
"""

import cv2
import numpy as np

from feda3i.core.cases import Images, Masks
from feda3i.synthetic.fields import (
    Array,
    Directions,
    blob,
    canvas,
    pixel_grid,
    reduced,
    rise,
    smooth_fields,
    to_bytes,
    turned,
)

# Skin under the light of a dermatoscope, from fair to dark, with the casts of real cameras, and how
# common each is.
SKIN = np.array(
    [
        [0.96, 0.90, 0.84],
        [0.93, 0.78, 0.72],
        [0.95, 0.60, 0.53],
        [0.82, 0.76, 0.78],
        [0.87, 0.70, 0.54],
        [0.72, 0.53, 0.40],
        [0.55, 0.38, 0.29],
        [0.42, 0.29, 0.23],
    ]
)
COMMON = np.array([0.17, 0.20, 0.13, 0.16, 0.14, 0.08, 0.07, 0.05])
# What each pigment absorbs of red, green and blue.
MELANIN = np.array([0.46, 0.80, 1.12])[:, None, None]
BLOOD = np.array([0.10, 0.62, 0.50])[:, None, None]
DEEP = np.array([0.95, 0.78, 0.55])[:, None, None]


def skin_case(rng: np.random.Generator, size: int, softness: float = 1.0) -> tuple[Images, Masks]:
    """Draw one dermoscopy-like case: an image ``(size, size, 3)`` in RGB order and its mask.

    The contour of the mask runs where the pigment has faded to about one half; no edge marks it.
    ``softness`` is times the usual width over which it fades.

    >>> image, mask = skin_case(np.random.default_rng(0), 48)
    >>> image.shape, mask.shape, image.dtype
    ((48, 48, 3), (48, 48), dtype('uint8'))
    """
    radius = float(np.sqrt((0.03 + 0.37 * rng.beta(1.0, 2.0)) / np.pi))
    inside, direction = _outline(rng, size, radius)
    density = _skin(rng, size)
    density += _pigment(rng, size, inside, direction, radius, softness)
    colour = np.exp(np.negative(density, out=density), out=density)
    for part in (_hairs, _extras, _camera):
        colour = part(rng, size, colour)
    image = np.ascontiguousarray(to_bytes(colour).transpose(1, 2, 0))
    return image, (inside > 0).astype(np.uint8)


def _outline(rng: np.random.Generator, size: int, radius: float) -> tuple[Array, Directions]:
    """Draw the shape: mostly near the middle, sometimes far off and cut by the frame."""
    spread = 0.2 if rng.random() < 0.15 else 0.07
    row, column = np.clip(0.5 + rng.normal(0, spread, 2), 0.08, 0.92).tolist()
    aspect, tilt = float(np.exp(rng.gamma(2.0, 0.12))), rng.uniform(0, np.pi)
    rough, lobes = rng.uniform(0.3, 1.3), int(rng.choice(4, p=[0.5, 0.25, 0.15, 0.1]))
    return blob(rng, size, (row, column), radius, aspect, tilt, rough, lobes)


def _skin(rng: np.random.Generator, size: int) -> Array:
    """Return the absorption of bare skin ``(3, size, size)``: tone, relief, vessels, freckles."""
    y, x = pixel_grid(size)
    first, second = rng.choice(len(SKIN), 2, p=COMMON)
    mix = rng.uniform(0, 0.5)
    tone = SKIN[first] * (1 - mix) + SKIN[second] * mix
    broad = smooth_fields(rng, 2, 4, size)
    mottled = smooth_fields(rng, 2, 14, size)
    relief = smooth_fields(rng, 1, 80, size)[0]
    vessels = np.exp(-((smooth_fields(rng, 1, 9, size)[0] / 0.12) ** 2))
    freckles = np.maximum(smooth_fields(rng, 1, 30, size)[0] - 2.1, 0)
    much = rng.gamma(2.0, 0.5, 5)
    slope = rng.normal(0, 0.08, 2)
    light = 0.02 * much[0] * broad[0] + 0.012 * mottled[0] + 0.012 * much[1] * relief
    light += slope[0] * (y - 0.5) + slope[1] * (x - 0.5)
    blood = 0.04 * much[2] * (broad[1] + mottled[1]) + 0.05 * much[3] * vessels
    melanin = 0.25 * much[4] * freckles
    density: Array = blood * BLOOD
    density += melanin * MELANIN
    density -= light
    density -= np.log(tone)[:, None, None]
    return density


def _pigment(
    rng: np.random.Generator,
    size: int,
    inside: Array,
    direction: Directions,
    radius: float,
    softness: float,
) -> Array:
    """Return the lesion's absorption ``(3, size, size)``: full inside, half on the contour."""
    broad = smooth_fields(rng, 4, 5, size)
    ragged = smooth_fields(rng, 1, 18, size)[0]
    soft_side = np.exp(-1j * rng.uniform(0, 2 * np.pi))
    uneven = rng.uniform(0.2, 1.0) * (direction * soft_side).real
    width = 0.005 + 0.10 * radius * np.exp(rng.normal(0, 0.35) + uneven + 0.25 * broad[0])
    width *= softness
    # The pigment wanders about the contour as it does about the smooth line a physician draws.
    wander = 0.3 * broad[1] + rng.uniform(0.2, 0.6) * ragged
    body = rise(inside + width * wander, width)
    core = rise(inside - rng.uniform(0.2, 0.6) * radius, 0.35 * radius)
    melanin = 1 + rng.uniform(0.1, 0.4) * broad[2] + rng.uniform(-0.25, 0.9) * core
    melanin += _structure(rng, size, direction, inside / radius)
    melanin *= body * rng.uniform(0.3, 1.25)
    blood = body * rng.gamma(1.2, 0.18) * (1 + 0.4 * broad[3])
    blood += rng.uniform(0, 0.2) * rise(inside + rng.uniform(0.1, 0.4) * radius, 0.2 * radius)
    total = np.maximum(melanin, 0.05 * body) * MELANIN
    total += blood * BLOOD
    deep = rng.uniform(0.3, 1.0) if rng.random() < 0.25 else 0.0
    if deep:
        total += deep * body * core * rise(broad[3] - 0.4, 0.5) * DEEP
    return np.asarray(total)


def _structure(rng: np.random.Generator, size: int, direction: Directions, depth: Array) -> Array:
    """Return what is inside: grain, a pigment network, globules, streaks at the rim, pale areas."""
    fine, coarse = smooth_fields(rng, 2, int(rng.integers(30, 52)), size)
    pale, calm = smooth_fields(rng, 2, 7, size)
    chosen = rng.random(4) < [0.45, 0.45, 0.2, 0.25]
    network, globules, streaks, bleached = np.where(chosen, rng.uniform(0.3, 0.9, 4), 0.0)
    turns = int(rng.integers(7, 15))
    total = rng.uniform(0.08, 0.25) * smooth_fields(rng, 1, 72, size)[0]
    if network:  # strongest in some areas, gone in others
        total += network * rise(calm + 0.6, 0.6) * (np.exp(-((fine / 0.45) ** 2)) - 0.5)
    if globules:
        total += 1.3 * globules * rise(coarse - 1.1, 0.3) * rise(pale + 0.7, 0.5)
    if streaks:
        spoke, shift = turned(direction, turns), pale + 0.8 * coarse
        rim = rise(0.35 - depth, 0.2)
        total += 0.5 * streaks * rim * (spoke.real * np.cos(shift) - spoke.imag * np.sin(shift))
    if bleached:
        total -= bleached * rise(pale - 0.9, 0.4)
    return np.asarray(total)


def _hairs(rng: np.random.Generator, size: int, colour: Array) -> Array:
    """Lay hairs over the picture: none in almost half of all cases, up to dozens in others."""
    count = 0 if rng.random() < 0.45 else int(rng.gamma(1.2, 8.0)) + 1
    drawing, side = canvas(size)
    lean, bend = rng.uniform(0, np.pi), rng.normal(0, 0.12)
    thick = rng.uniform(0.003, 0.009)
    t = np.linspace(0, 1, 17)[:, None]
    for _ in range(count):
        angle = lean + rng.normal(0, 0.5)
        along = np.array([np.cos(angle), np.sin(angle)])
        path = rng.uniform(-0.2, 1.2, 2) + along * t * rng.uniform(0.25, 0.9)
        path += np.array([-along[1], along[0]]) * t * t * (bend + rng.normal(0, 0.1))
        width = max(1, round(thick * side * rng.uniform(0.5, 1.2)))
        ink = int(rng.integers(110, 245))
        cv2.polylines(drawing, [_sixteenths(path, side)], False, ink, width, cv2.LINE_AA, 4)
    hair = np.array([0.22, 0.15, 0.12])[:, None, None] * rng.uniform(0.4, 1.6)
    if count:
        colour += (hair - colour) * reduced(drawing, size)
    return colour


def _extras(rng: np.random.Generator, size: int, colour: Array) -> Array:
    """Add, now and then, a ruler, gel bubbles and bright reflections."""
    if rng.random() < 0.18:
        drawing, side = canvas(size)
        _ruler(rng, drawing, side)
        colour *= 1 - reduced(drawing, size) * rng.uniform(0.4, 0.8)
    drawing, side = canvas(size)
    line = max(1, side // 180)
    for _ in range(int(rng.integers(2, 9)) if rng.random() < 0.2 else 0):
        place = _sixteenths(rng.uniform(0, 1, 2), side).tolist()
        around = _sixteenths(np.maximum(rng.gamma(3, 0.008, 1), 0.008), side).tolist() * 2
        cv2.ellipse(drawing, place, around, 0, 0, 360, 70, line, cv2.LINE_AA, 4)
        cv2.ellipse(drawing, place, around, 0, 190, 265, 220, line, cv2.LINE_AA, 4)
    near = rng.uniform(0.2, 0.8, 2)
    for _ in range(int(rng.integers(3, 30)) if rng.random() < 0.35 else 0):
        place = _sixteenths(near + rng.normal(0, 0.15, 2), side).tolist()
        around = _sixteenths(rng.uniform(0.002, 0.007, 1), side).tolist()[0]
        cv2.circle(drawing, place, around, 170, -1, cv2.LINE_AA, 4)
    if drawing.any():
        colour += (0.97 - colour) * reduced(drawing, size)
    return colour


def _ruler(rng: np.random.Generator, drawing: Images, side: int) -> None:
    angle = rng.choice([0.0, np.pi / 2]) + rng.normal(0, 0.06)
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-along[1], along[0]])
    start = 0.5 - 0.45 * along + across * rng.choice([-1, 1]) * rng.uniform(0.36, 0.46)
    marks = start + along * np.arange(31)[:, None] * 0.03
    length = np.where(np.arange(31) % 5 == 0, 0.035, 0.02)[:, None]
    lines = [marks[[0, -1]], *np.stack([marks, marks + across * length], axis=1)]
    paths = [_sixteenths(path, side) for path in lines]
    cv2.polylines(drawing, paths, False, 255, max(1, side // 170), cv2.LINE_AA, 4)


def _sixteenths(path: Array, side: int) -> np.ndarray:
    """Return places as OpenCV draws them: whole sixteenths of a pixel."""
    return np.rint(path * side * 16).astype(np.int32)


def _camera(rng: np.random.Generator, size: int, colour: Array) -> Array:
    """Darken towards the corners, show the round aperture of some devices, add noise."""
    y, x = pixel_grid(size)
    centre = 0.5 + rng.normal(0, 0.04, 2)
    far = np.sqrt((y - centre[0]) ** 2 + (x - centre[1]) ** 2)
    light = 1 - 1.2 * rng.gamma(1.5, 0.16) * far**2
    if rng.random() < 0.12:
        light *= rise(rng.uniform(0.5, 0.66) - far, rng.uniform(0.006, 0.03))
    colour *= light
    colour += smooth_fields(rng, 3, 150, size) * rng.uniform(0.004, 0.014)
    return colour
