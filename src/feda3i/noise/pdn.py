"""Is a noise model pixel-dependent? The paper's Definition 1 (PDN) as a test that can be run.

PDN-1: pixels near the clean contour are flipped more often than pixels far from it.
PDN-2: at one distance from the contour, flip probabilities depend on the place along it.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError
from feda3i.geometry import Floats, signed_distance
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.levelset import SignedDistanceEvolution
from feda3i.noise.model import Mask, NoiseModel, NoiseWarning, check_mask
from feda3i.noise.other_models import ClassConditional, MarkovNoise, MorphologicalNoise
from feda3i.seeding import Draws, generator, rng

MODELS: Mapping[str, NoiseModel] = {
    "CEM C(0,6) faithful, fixed start": ContourEvolution(0, 6, mode="faithful", start="fixed"),
    "CEM C(0,6) faithful, random start": ContourEvolution(0, 6, mode="faithful"),
    "CEM C(0,6) robust, fixed start": ContourEvolution(0, 6, start="fixed"),
    "CEM C(0,6) robust, random start": ContourEvolution(0, 6),
    "levelset C(0,6)": SignedDistanceEvolution(0, 6),
    "CCN rate 0.2": ClassConditional(),
    "MON distance 7..9": MorphologicalNoise(),
    "MLN T 200, theta .5 .05 .2": MarkovNoise(200, 0.5),
}
NEAR = 10.0  # pixels of the contour; PDN-1 compares them with all others
SHELL, WIDTH = 3.0, 0.6  # PDN-2 looks at pixels 3 px outside the contour, within 0.6 px
SECTORS = 16  # by angle around the centre of the object


@dataclass(frozen=True)
class PixelDependence:
    """Both conditions with their statistics; standard errors are across draws."""

    near: float  # mean flip probability within 10 pixels of the contour
    far: float  # and beyond
    z: float  # their difference in standard errors
    sectors: Floats  # ``(sector,)`` mean flip probability 3 px outside the contour, by angle
    chi_square: float  # sum of squared standardised differences of the sectors from their mean
    p_chi_square: float  # probability of a larger value if sectors were independent
    p_rotation: float
    """The same without that assumption, which neighbours in one draw break: share of data sets as
    extreme after turning every draw by a random number of sectors."""

    def meets(self) -> tuple[bool, bool]:
        """Tell for both conditions whether the model meets them.

        PDN-1: flips are more frequent near the contour, by three standard errors. PDN-2: both
        p-values are below 0.01. The chi-square alone mistakes the chance of correlated draws for
        structure, the rotation test alone sees the pixel lattice.
        """
        return self.z > 3.0, self.p_chi_square < 0.01 and self.p_rotation < 0.01


def pixel_dependence(
    noise: NoiseModel, mask: Mask, draws: int, rng: Draws, rotations: int = 999
) -> PixelDependence:
    """Draw noisy masks of a clean binary 2-D mask and test both conditions of PDN.

    On a disc PDN-2 says something about the noise alone; elsewhere sectors differ in curvature,
    too. 250 ``draws`` or more make the test powerful enough; ``rotations`` are the turns for
    ``p_rotation``.
    """
    from scipy.special import chdtrc

    check_mask(mask, dimensions=(2,))
    clean, rng = mask != 0, generator(rng)
    distance = signed_distance(clean)
    is_near = np.abs(distance) < NEAR
    if not clean.any() or clean.all() or is_near.all():
        found = f"found {int(clean.sum())} of {clean.size} pixels set; use a larger frame"
        raise DataError(
            f"expected an object with pixels farther than {NEAR:g} from its contour, {found}"
        )
    shell = np.abs(distance - SHELL) < WIDTH
    sector = _sectors(clean, shell)
    near, far, by_sector = np.empty(draws), np.empty(draws), np.empty((draws, SECTORS))
    for k in range(draws):
        flipped = (noise(mask, rng) != 0) != clean
        near[k], far[k] = flipped[is_near].mean(), flipped[~is_near].mean()
        by_sector[k] = np.bincount(sector, flipped[shell], SECTORS) / np.bincount(sector)
    chi_square = _chi_square(by_sector)
    turned, places = np.empty(rotations), np.arange(SECTORS)
    for k in range(rotations):
        by = rng.integers(SECTORS, size=(draws, 1))
        turned[k] = _chi_square(np.take_along_axis(by_sector, (places + by) % SECTORS, axis=1))
    difference = near - far
    error = difference.std(ddof=1) / np.sqrt(draws)
    return PixelDependence(
        near=float(near.mean()),
        far=float(far.mean()),
        z=float(difference.mean() / max(error, 1e-12)),
        sectors=by_sector.mean(axis=0),
        chi_square=chi_square,
        p_chi_square=float(chdtrc(SECTORS - 1, chi_square)),
        p_rotation=float((1 + np.sum(turned >= chi_square - 1e-9)) / (1 + rotations)),
    )


def _sectors(clean: NDArray[np.bool_], shell: NDArray[np.bool_]) -> NDArray[np.intp]:
    centre = np.argwhere(clean).mean(axis=0)
    rows, cols = np.nonzero(shell)
    turn = np.arctan2(rows - centre[0], cols - centre[1]) / (2 * np.pi) + 0.5
    sector: NDArray[np.intp] = np.minimum((turn * SECTORS).astype(np.intp), SECTORS - 1)
    if len(np.unique(sector)) < SECTORS:
        raise DataError(
            f"expected pixels {SHELL:g} px from the contour in all {SECTORS} sectors, found them "
            f"in {len(np.unique(sector))}; move the object into the frame"
        )
    return sector


def _chi_square(by_sector: Floats) -> float:
    mean, draws = by_sector.mean(axis=0), len(by_sector)
    # Half a draw as the least standard error: a sector that never varies says nothing exact.
    error = np.maximum(by_sector.std(axis=0, ddof=1) / np.sqrt(draws), 0.5 / draws)
    common = np.average(mean, weights=error**-2)
    return float((((mean - common) / error) ** 2).sum())


def dependence_table(draws: int, radius: float, seed: int) -> str:
    """Test every model on a disc of this radius; return a Markdown table, one line per model."""
    side = 3 * math.ceil(radius) + 80
    clean = (np.hypot(*(np.mgrid[:side, :side] - side // 2)) <= radius).view(np.uint8)
    head = ["noise", "flips near / far", "PDN-1", "p of equal sectors", "p rotation", "PDN-2"]
    lines = [head, ["---"] * len(head)]
    for name, model in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            found = pixel_dependence(model, clean, draws, rng(seed, "pdn", name))
        first, second = ("yes" if is_met else "no" for is_met in found.meets())
        flips, p = f"{found.near:.3f} / {found.far:.4f}", f"{found.p_chi_square:.2g}"
        lines.append([name, flips, first, p, f"{found.p_rotation:.3f}", second])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
