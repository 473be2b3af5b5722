"""Where the border lies that sites should draw: three guesses, and when not to believe them.

The offsets that a site measures in its images are absolute but for b0, the few pixels by which good
annotators draw outside the border of best contrast. So with three sites already one can tell who
draws near the border and who far off. The middle between the two ends needs many sites, and the
plain mean of the sites is right only if their errors cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from feda3i.quality.edges import SIDE
from feda3i.quality.numbers import FloatArray

B0, B0_ERROR = 1.0, 4.0
"""Pixels at 256 a side that good annotators draw outside the edge: +3 in dermoscopy, +2 in breast
ultrasound, 0 and -2 in synthetic images, -5 for optic discs."""
ENDS = 2.0
"""The middle between the ends of K sites errs by ENDS / (K + 5) of their range (simulated)."""
LOPSIDED = 0.8
"""The mean of sites errs by this part of their standard deviation: four of five draw alike."""
HESITATION = 0.2
"""A move of the weighted offset counts for less, the nearer it is to its own error."""
LEAST_CORRELATION = 0.8
"""Of the two offsets, from images and from the model's contours, over sites."""
APART = 2.0
"""Standard errors between two guesses of the border from which on they contradict each other."""
FEWEST = 3


@dataclass(frozen=True)
class Border:
    """Where the sites draw and where they should, in pixels.

    Zero is the edge in their images, or the model's contour if the images show none.
    """

    # ``(site,)`` offset of each site and its standard error; ``NaN``: unrated
    places: FloatArray
    errors: FloatArray
    centre: float  # the offset that the weighted sites should have
    trust: float
    """0..1: how much of the way from the mean of the sites to the centre is more than a guess."""
    reason: str = ""  # why nothing should change, if nothing should; otherwise empty


def find_border(
    offset: FloatArray,
    error: FloatArray,
    edge: FloatArray,
    edge_error: FloatArray,
    size: FloatArray,
    side: float,
) -> Border | None:
    """Return where the border is by the images' edges; ``None`` if they cannot tell.

    They cannot if fewer than three sites or half of them know their edge offset, if the offsets
    from edges and from the model's contours do not agree about who draws larger, or if the border
    is so far from the middle between the ends that it may be another one than is drawn.

    Arguments are those of ``balance_sites``, as arrays ``(site,)``, with shares of cases as
    ``size``.
    """
    has_edge = np.isfinite(edge) & np.isfinite(edge_error) & (size > 0)
    has_model = np.isfinite(offset) & np.isfinite(error) & (size > 0)
    both, rated = has_edge & has_model, has_edge | has_model
    if 2 * both.sum() < rated.sum() or both.sum() < FEWEST or not _agree(edge[both], offset[both]):
        return None
    # A site that cannot see the edge is placed by the model's contour, which differs by a constant.
    constant = float(np.median(edge[both] - offset[both]))
    places = np.where(has_edge, edge, np.where(has_model, offset + constant, np.nan))
    errors = np.where(has_edge, edge_error, np.where(has_model, error, np.nan))
    here, share = places[rated], size[rated] / size[rated].sum()
    scale = side / SIDE
    mean, middle = float(share @ here), float(here.min() + here.max()) / 2
    guesses = np.array([B0 * scale, middle, mean])
    doubts = np.array(
        [
            B0_ERROR * scale,
            ENDS / (len(here) + 5) * float(np.ptp(here)),
            LOPSIDED * float(here.std(ddof=1)),
        ]
    )
    if abs(middle - guesses[0]) > APART * math.hypot(doubts[0], doubts[1]):
        return None
    belief = 1 / doubts**2
    centre = float(belief @ guesses / belief.sum())
    way, opposed = guesses[:2] - mean, ""
    if way[0] * way[1] < 0 and abs(way[0]) > doubts[0]:
        opposed = (
            "edges in the images and the middle between the sites point in opposite directions: "
            "everybody keeps the share of cases"
        )
    doubt = HESITATION / float(belief[:2].sum())
    trust = max(0.0, 1.0 - doubt / (centre - mean) ** 2) if centre != mean else 0.0
    if trust == 0.0 and not opposed:
        opposed = "the sites draw near the border on average: everybody keeps the share of cases"
    return Border(places, errors, centre, 0.0 if opposed else trust, opposed)


def _agree(edge: FloatArray, offset: FloatArray) -> bool:
    """Return whether both offsets tell the same sites apart."""
    if not (np.ptp(edge) and np.ptp(offset)):
        return False
    return bool(np.corrcoef(edge, offset)[0, 1] >= LEAST_CORRELATION)
