"""Synthetic dermoscopy: pigmented lesions with soft, uneven borders on skin of any tone.

Colour follows absorption: what is seen is the skin's colour times ``exp(-density * absorption)``,
with melanin, blood and deep (bluish) pigment each absorbing red, green and blue in its own way.
"""

from __future__ import annotations

import cv2
import numpy as np

from feda3i.data.base import Images, Masks
from feda3i.data.fields import Array, blob, pixel_grid, rise, smooth_fields, to_bytes

# Skin under the light of a dermatoscope, from fair to dark, with the casts of real cameras.
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
COMMON = np.array([0.17, 0.2, 0.13, 0.16, 0.14, 0.08, 0.07, 0.05])
MELANIN = np.array([0.42, 0.80, 1.12])
BLOOD = np.array([0.10, 0.62, 0.50])
DEEP = np.array([0.95, 0.78, 0.55])


def skin_case(rng: np.random.Generator, size: int) -> tuple[Images, Masks]:
    """Draw one dermoscopy-like case.

    Returns
    -------
    The image ``(size, size, 3)`` in RGB order and its mask ``(size, size)`` of 0 and 1. The contour
    of the mask runs where the pigment has faded to one half; no edge marks it.

    >>> image, mask = skin_case(np.random.default_rng(0), 48)
    >>> image.shape, mask.shape, image.dtype
    ((48, 48, 3), (48, 48), dtype('uint8'))
    """
    radius = float(np.sqrt(np.exp(rng.uniform(np.log(0.03), np.log(0.40))) / np.pi))
    inside, direction = _outline(rng, size, radius)
    colour = _skin(rng, size)
    density = _pigment(rng, size, inside, direction, radius)
    colour *= np.exp(-density)
    colour = _hairs(rng, size, colour)
    colour = _extras(rng, size, colour)
    colour = _camera(rng, size, colour)
    return to_bytes(colour), (inside > 0).astype(np.uint8)


def _outline(rng: np.random.Generator, size: int, radius: float) -> tuple[Array, np.ndarray]:
    spread = 0.2 if rng.random() < 0.15 else 0.07
    centre = np.clip(0.5 + rng.normal(0, spread, 2), 0.08, 0.92)
    return blob(
        rng,
        size,
        centre=(float(centre[0]), float(centre[1])),
        radius=radius,
        aspect=float(np.exp(rng.gamma(2.0, 0.12))),
        tilt=float(rng.uniform(0, np.pi)),
        rough=float(rng.uniform(0.3, 1.3)),
        lobes=int(rng.choice(4, p=[0.5, 0.25, 0.15, 0.1])),
    )


def _skin(rng: np.random.Generator, size: int) -> Array:
    """Draw skin without a lesion: tone, mottling, fine relief, small vessels and spots."""
    y, x = pixel_grid(size)
    pair = rng.choice(len(SKIN), 2, p=COMMON)
    mix = rng.uniform(0, 0.5)
    tone = SKIN[pair[0]] * (1 - mix) + SKIN[pair[1]] * mix
    broad = smooth_fields(rng, 2, 4, size)
    mottled = smooth_fields(rng, 2, 14, size)
    relief = smooth_fields(rng, 1, 80, size)[0]
    vessels = np.exp(-((smooth_fields(rng, 1, 9, size)[0] / 0.12) ** 2))
    strength = rng.gamma(2.0, 0.5, 5)
    spots = np.maximum(smooth_fields(rng, 1, 30, size)[0] - 2.1, 0)
    light = 0.02 * strength[0] * broad[0] + 0.012 * mottled[0] + 0.012 * strength[1] * relief
    tilt = rng.normal(0, 0.08, 2)
    light += tilt[0] * (y - 0.5) + tilt[1] * (x - 0.5)
    blood = 0.04 * strength[2] * (broad[1] + mottled[1]) + 0.05 * strength[3] * vessels
    melanin = 0.25 * strength[4] * spots
    density = blood[..., None] * BLOOD + melanin[..., None] * MELANIN - light[..., None]
    return np.asarray(tone * np.exp(-density))


def _pigment(
    rng: np.random.Generator, size: int, inside: Array, direction: np.ndarray, radius: float
) -> Array:
    """Return the lesion's absorption ``(size, size, 3)``: full inside, one half on the contour."""
    width = 0.004 + 0.10 * radius * np.exp(rng.normal(0, 0.35))
    sharp_side = np.exp(1j * rng.uniform(0, 2 * np.pi))
    uneven = rng.uniform(0.2, 1.0)
    broad = smooth_fields(rng, 4, 5, size)
    ragged = smooth_fields(rng, 1, 18, size)[0]
    width = width * np.exp(uneven * (direction * sharp_side).real + 0.25 * broad[0])
    # The pigment wanders about the contour as it does about the smooth line a physician draws.
    wander = width * (0.35 * broad[1] + rng.uniform(0.2, 0.7) * ragged)
    body = rise(inside + wander, width)
    core = rise(inside - rng.uniform(0.2, 0.6) * radius, 0.35 * radius)
    patchy = rng.uniform(0.1, 0.45)
    melanin = 1 + patchy * broad[2] + rng.uniform(-0.25, 0.8) * core
    melanin += _structure(rng, size, direction, inside / radius)
    amount = rng.uniform(0.35, 1.15)
    blood = rng.uniform(0, 0.6) * (1 + 0.4 * broad[3])
    deep = rng.uniform(0.2, 1.0) * core * rise(broad[3] - 0.4, 0.5) if rng.random() < 0.3 else 0.0
    halo = rng.uniform(0, 0.25) * rise(inside + rng.uniform(0.1, 0.4) * radius, 0.2 * radius)
    parts = (
        (body * np.maximum(melanin, 0.05) * amount, MELANIN),
        (body * np.maximum(blood, 0) + halo, BLOOD),
        (body * deep, DEEP),
    )
    return np.asarray(sum(p[..., None] * absorbs for p, absorbs in parts))


def _structure(rng: np.random.Generator, size: int, direction: np.ndarray, depth: Array) -> Array:
    """Return what is inside: a pigment network, globules, streaks towards the rim or pale areas."""
    cells = int(rng.integers(24, 44))
    fine, coarse = smooth_fields(rng, 2, cells, size)
    pale = smooth_fields(rng, 1, 7, size)[0]
    strength = rng.uniform(0.3, 0.9, 4) * (rng.random(4) < [0.45, 0.45, 0.25, 0.25])
    turns = int(rng.integers(7, 13))
    network = np.exp(-((fine / 0.4) ** 2)) - 0.5
    globules = rise(coarse - 1.0, 0.25)
    streaks = (direction**turns * np.exp(1j * (pale + 0.7 * coarse))).real * rise(0.35 - depth, 0.2)
    regression = -rise(pale - 0.9, 0.3)
    total = strength[0] * network + 1.3 * strength[1] * globules
    return np.asarray(total + 0.6 * strength[2] * streaks + strength[3] * regression)


def _canvas(size: int) -> tuple[np.ndarray, int]:
    """Return an empty drawing of 256 pixels or more, a multiple of the frame, and its side."""
    side = size * -(-256 // size)
    return np.zeros((side, side), np.uint8), side


def _reduced(drawing: np.ndarray, size: int) -> Array:
    small = cv2.resize(drawing, (size, size), interpolation=cv2.INTER_AREA)
    return np.asarray(small[..., None] / 255.0)


def _hairs(rng: np.random.Generator, size: int, colour: Array) -> Array:
    count = 0 if rng.random() < 0.45 else int(rng.gamma(1.2, 8.0)) + 1
    drawing, side = _canvas(size)
    lean, bend = rng.uniform(0, np.pi), rng.normal(0, 0.12)
    t = np.linspace(0, 1, 17)[:, None]
    thick = rng.uniform(0.003, 0.009)
    for _ in range(count):
        angle = lean + rng.normal(0, 0.5)
        along = np.array([np.cos(angle), np.sin(angle)])
        start = rng.uniform(-0.2, 1.2, 2)
        path = start + along * t * rng.uniform(0.25, 0.9)
        path += along[::-1] * [-1, 1] * (t * t) * (bend + rng.normal(0, 0.1))
        width = max(1, round(thick * side * rng.uniform(0.5, 1.2)))
        points = np.rint(path * side * 16).astype(np.int32)
        ink = int(rng.integers(110, 245))
        cv2.polylines(drawing, [points], False, ink, width, cv2.LINE_AA, 4)
    hair = np.array([0.22, 0.15, 0.12]) * rng.uniform(0.4, 1.6)
    cover = _reduced(drawing, size)
    return np.asarray(colour * (1 - cover) + hair * cover)


def _extras(rng: np.random.Generator, size: int, colour: Array) -> Array:
    """Add, now and then, a ruler, gel bubbles and bright reflections."""
    drawing, side = _canvas(size)
    if rng.random() < 0.18:
        _ruler(rng, drawing, side)
    cover = _reduced(drawing, size)
    colour = colour * (1 - cover * rng.uniform(0.4, 0.8))
    drawing, side = _canvas(size)
    bubbles = int(rng.integers(2, 9)) if rng.random() < 0.2 else 0
    for centre, r in zip(
        rng.uniform(0, 1, (bubbles, 2)), rng.gamma(3, 0.008, bubbles), strict=True
    ):
        place = tuple(int(v) for v in np.rint(centre * side))
        cv2.circle(
            drawing, place, max(2, round(float(r) * side)), 90, max(1, side // 200), cv2.LINE_AA
        )
        cv2.ellipse(
            drawing,
            place,
            (max(1, round(float(r) * side * 0.7)),) * 2,
            0,
            200,
            260,
            230,
            max(1, side // 160),
            cv2.LINE_AA,
        )
    glints = int(rng.integers(3, 30)) if rng.random() < 0.35 else 0
    near = rng.uniform(0.2, 0.8, 2)
    for centre in near + rng.normal(0, 0.15, (glints, 2)):
        place = tuple(int(v) for v in np.rint(centre * side))
        cv2.circle(
            drawing,
            place,
            max(1, round(float(rng.uniform(0.002, 0.008)) * side)),
            170,
            -1,
            cv2.LINE_AA,
        )
    shine = _reduced(drawing, size)
    return np.asarray(colour * (1 - shine) + shine * 0.97)


def _ruler(rng: np.random.Generator, drawing: np.ndarray, side: int) -> None:
    angle = rng.choice([0.0, np.pi / 2]) + rng.normal(0, 0.06)
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-along[1], along[0]])
    start = 0.5 - 0.45 * along + across * rng.choice([-1, 1]) * rng.uniform(0.36, 0.46)
    line = max(1, side // 170)
    ends = [start, start + 0.9 * along]
    ticks = [
        (
            start + along * k * 0.03,
            start + along * k * 0.03 + across * (0.035 if k % 5 == 0 else 0.02),
        )
        for k in range(31)
    ]
    for a, b in [tuple(ends), *ticks]:
        a16, b16 = (tuple(int(v) for v in np.rint(p * side * 16)) for p in (a, b))
        cv2.line(drawing, a16, b16, 255, line, cv2.LINE_AA, 4)


def _camera(rng: np.random.Generator, size: int, colour: Array) -> Array:
    """Darken towards the corners, show the round aperture of some devices, add noise."""
    y, x = pixel_grid(size)
    centre = 0.5 + rng.normal(0, 0.04, 2)
    far = np.sqrt((y - centre[0]) ** 2 + (x - centre[1]) ** 2)
    colour = colour * (1 - rng.gamma(1.5, 0.16) * far**2 * 1.2)[..., None]
    if rng.random() < 0.15:
        colour = colour * rise(rng.uniform(0.48, 0.66) - far, rng.uniform(0.006, 0.03))[..., None]
    grain = smooth_fields(rng, 3, 150, size)
    return np.asarray(colour + np.moveaxis(grain, 0, 2) * rng.uniform(0.004, 0.014))
