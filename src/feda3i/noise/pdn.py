"""Is a noise model pixel-dependent? The paper's Definition 1 (PDN) as a test that can be run.

PDN-1: pixels near the clean contour are flipped more often than pixels far from it.
PDN-2: pixels at the same distance from the contour have different flip probabilities, depending on
where along the contour they are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError, RecipeError
from feda3i.geometry import Floats, signed_distance
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.flip import ClassConditional
from feda3i.noise.levelset import SignedDistanceEvolution
from feda3i.noise.markov import MarkovNoise
from feda3i.noise.model import (
    Mask,
    NoiseModel,
    NoiseWarning,
    check_mask,
)
from feda3i.noise.morphology import MorphologicalNoise
from feda3i.seeding import Draws, generator, rng

MODELS: Mapping[str, NoiseModel] = {
    "CEM C(0,6) faithful, fixed start": ContourEvolution(0, 6, mode="faithful", start="fixed"),
    "CEM C(0,6) faithful, random start": ContourEvolution(0, 6, mode="faithful"),
    "CEM C(0,6) robust, fixed start": ContourEvolution(0, 6, start="fixed"),
    "CEM C(0,6) robust, random start": ContourEvolution(0, 6),
    "levelset C(0,6), fixed start": SignedDistanceEvolution(0, 6, start="fixed"),
    "levelset C(0,6), random start": SignedDistanceEvolution(0, 6),
    "CCN rate 0.2": ClassConditional(),
    "MON distance 7..9": MorphologicalNoise(),
    "MON distance 0..6": MorphologicalNoise(low=0, high=6),
    "MON relative": MorphologicalNoise(variant="relative"),
    "MLN T 200, theta .5 .05 .2": MarkovNoise(200, 0.5),
    "MLN T 200, theta .8 .05 .2": MarkovNoise(200, 0.8),
}


@dataclass(frozen=True)
class PixelDependence:
    """Both conditions with their statistics; standard errors are across draws."""

    # Mean flip probability within ``eps`` pixels of the contour, and beyond
    near: float
    far: float
    z: float  # their difference in standard errors
    sectors: Floats
    """``(sector,)`` mean flip probability in the shell, by angle around the object's centre."""
    # Sum of squared standardised differences of the sectors from their common mean, and the degrees
    # of freedom if sectors were independent
    chi_square: float
    degrees: int
    p_chi_square: float  # probability of a larger value under that assumption
    p_rotation: float
    """The same without the assumption: share of data sets as extreme after turning every draw by a
    random number of sectors. Neighbouring sectors of one draw are correlated, which this keeps."""

    def meets_first(self, z: float = 3.0) -> bool:
        """Tell whether flips are more frequent near the contour, by this many standard errors."""
        return self.z > z

    def meets_second(self, p: float = 0.01) -> bool:
        """Tell whether the sectors differ: both p-values are below this one.

        The chi-square alone would mistake the chance of one draw for structure if draws are
        correlated along the contour; the rotation test alone sees the pixel lattice, since noise
        that is equal in all sectors leaves nothing else to see.
        """
        return self.p_chi_square < p and self.p_rotation < p


def pixel_dependence(
    noise: NoiseModel,
    mask: Mask,
    draws: int,
    rng: Draws,
    *,
    eps: float = 10.0,
    shell: float = 3.0,
    width: float = 0.6,
    sectors: int = 16,
    rotations: int = 999,
) -> PixelDependence:
    """Draw noisy masks of one clean 2-D mask and test both conditions of PDN.

    Parameters
    ----------
    mask
        ``(row, column)``, binary. On a disc PDN-2 says something about the noise alone; on other
        shapes curvature and thickness differ between sectors as well.
    draws
        Number of noisy masks; 250 or more make the test powerful enough.
    eps
        Distance in pixels that separates near from far.
    shell, width
        The shell of PDN-2: pixels with ``|D - shell| < width``; positive is outside.
    sectors
        Number of angular sectors around the centre of the object.
    rotations
        Number of random turns for ``p_rotation``.

    >>> from feda3i.noise import ClassConditional
    >>> disc = np.hypot(*(np.mgrid[:64, :64] - 32)) <= 15
    >>> found = pixel_dependence(ClassConditional(), disc, 60, np.random.default_rng(1))
    >>> found.meets_first(), found.meets_second()
    (False, False)
    """
    check_mask(mask, dimensions=(2,))
    if draws < 2 or eps <= 0 or sectors < 2:
        raise RecipeError(
            f"expected two draws, two sectors and eps above 0, found {draws}, {sectors}, {eps:g}"
        )
    clean, rng = mask != 0, generator(rng)
    distance = signed_distance(clean)
    is_near = np.abs(distance) < eps
    if not clean.any() or clean.all() or is_near.all():
        raise DataError(
            f"expected an object with pixels farther than eps = {eps:g} from its contour, found "
            f"{int(clean.sum())} of {clean.size} pixels set; use a larger frame or a smaller eps"
        )
    rows, cols, sector = _shell_sectors(clean, distance, shell, width, sectors)
    counts = np.bincount(sector, minlength=sectors)
    near, far, by_sector = np.empty(draws), np.empty(draws), np.empty((draws, sectors))
    for k in range(draws):
        flipped = (noise(mask, rng) != 0) != clean
        near[k], far[k] = flipped[is_near].mean(), flipped[~is_near].mean()
        by_sector[k] = np.bincount(sector, flipped[rows, cols], minlength=sectors) / counts
    chi_square = _chi_square(by_sector)
    turned = [_chi_square(_turn(by_sector, rng)) for _ in range(rotations)]
    from scipy.special import chdtrc

    return PixelDependence(
        near=float(near.mean()),
        far=float(far.mean()),
        z=_standardised(near - far),
        sectors=by_sector.mean(axis=0),
        chi_square=chi_square,
        degrees=sectors - 1,
        p_chi_square=float(chdtrc(sectors - 1, chi_square)),
        p_rotation=float((1 + np.sum(np.array(turned) >= chi_square - 1e-9)) / (1 + rotations)),
    )


def _shell_sectors(
    clean: NDArray[np.bool_],
    distance: NDArray[np.float32],
    shell: float,
    width: float,
    sectors: int,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the pixels of the shell and the angular sector of each."""
    centre = np.argwhere(clean).mean(axis=0)
    rows, cols = np.nonzero(np.abs(distance - shell) < width)
    turn = np.arctan2(rows - centre[0], cols - centre[1]) / (2 * np.pi) + 0.5
    sector = np.minimum((turn * sectors).astype(np.intp), sectors - 1)
    if len(np.unique(sector)) < sectors:
        raise DataError(
            f"expected pixels at {shell:g} +- {width:g} px from the contour in all {sectors} "
            f"sectors, found them in {len(np.unique(sector))}; move the object into the frame"
        )
    return rows, cols, sector


def _chi_square(by_sector: Floats) -> float:
    draws = len(by_sector)
    mean = by_sector.mean(axis=0)
    # Half a draw as the least standard error: a sector that never varies says nothing exact.
    error = np.maximum(by_sector.std(axis=0, ddof=1) / np.sqrt(draws), 0.5 / draws)
    common = np.average(mean, weights=error**-2)
    return float((((mean - common) / error) ** 2).sum())


def _turn(by_sector: Floats, rng: np.random.Generator) -> Floats:
    draws, sectors = by_sector.shape
    places = (np.arange(sectors) + rng.integers(sectors, size=(draws, 1))) % sectors
    return np.take_along_axis(by_sector, places, axis=1)


def _standardised(differences: Floats) -> float:
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean() / max(error, 1e-12))


# -- the table of ``feda3i noise pdn`` -------------------------------------------------------------


def dependence_rows(draws: int, radius: float, seed: int) -> list[dict[str, Any]]:
    """Test every model on a disc of this radius; one row of plain values per model."""
    side = 3 * math.ceil(radius) + 80
    clean = (np.hypot(*(np.mgrid[:side, :side] - side // 2)) <= radius).view(np.uint8)
    table = []
    for name, model in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            found = pixel_dependence(model, clean, draws, rng(seed, "pdn", name))
        row = {"model": name, **asdict(found)}
        row |= {"pdn_1": found.meets_first(), "pdn_2": found.meets_second()}
        sectors = row.pop("sectors")
        row |= {"lowest_sector": float(sectors.min()), "highest_sector": float(sectors.max())}
        table.append(row)
    return table


def dependence_text(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| noise | flips near / far | z | PDN-1 | sectors | chi-square | p | p rotation | PDN-2 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first, second = ("yes" if row[key] else "no" for key in ("pdn_1", "pdn_2"))
        lines.append(
            f"| {row['model']} | {row['near']:.3f} / {row['far']:.4f} | {row['z']:.1f} | {first} | "
            f"{row['lowest_sector']:.2f}..{row['highest_sector']:.2f} | "
            f"{row['chi_square']:.1f} / {row['degrees']} | {row['p_chi_square']:.2g} | "
            f"{row['p_rotation']:.3f} | {second} |"
        )
    return "\n".join(lines)
