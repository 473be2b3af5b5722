"""Find the noise strength that gives a wanted mean Dice with the clean masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from feda3i.errors import DataError, RecipeError
from feda3i.metrics import dice_both_empty_one
from feda3i.noise.model import Mask, NoiseModel, check_integer, check_number
from feda3i.seeding import Draws, generator

Family = Callable[[float], NoiseModel]


@dataclass(frozen=True)
class Calibration:
    """The strength that was found, the model it makes, its mean Dice, and how many were tried."""

    strength: float
    model: NoiseModel
    dice: float
    evaluations: int


def mean_dice(clean: Mask, noisy: Mask) -> float:
    """Return the Dice of two masks, averaged over the classes in either; 1 if both are empty.

    >>> round(mean_dice(np.array([[1, 1, 0, 0]]), np.array([[1, 0, 0, 0]])), 3)
    0.667
    """
    clean, noisy = clean.ravel(), noisy.ravel()  # masks of some models have four dimensions
    if max(int(clean.max()), int(noisy.max())) <= 1:
        return dice_both_empty_one(noisy != 0, clean != 0)
    values = [v for v in np.union1d(clean, noisy).tolist() if v]
    return float(np.mean([dice_both_empty_one(noisy == v, clean == v) for v in values]))


def calibrate(
    noise_family: Family,
    masks: Sequence[Mask],
    target_dice: float,
    rng: Draws,
    *,
    high: float = 1.0,
    limit: float = 256.0,
    tolerance: float = 0.002,
    evaluations: int = 40,
) -> Calibration:
    """Return the strength whose mean Dice with the clean masks is the target.

    The strength is doubled from ``high`` until the Dice falls below the target, then the interval
    is halved. All strengths see the same random numbers, so the curve is as smooth as it can be.

    Parameters
    ----------
    noise_family
        Strength -> model, weaker noise for a smaller strength and none at 0, e.g.
        ``lambda s: ContourEvolution(-s, s / 2)``.
    masks
        Clean masks, at least one of them with foreground.
    target_dice
        Wanted mean, above 0 and below 1.
    high, limit
        First and largest strength to try.
    tolerance
        Distance from the target at which the search ends.
    evaluations
        Most strengths to try.

    >>> from feda3i.noise import ContourEvolution
    >>> disc = np.hypot(*(np.mgrid[:256, :256] - 128)) <= 40
    >>> found = calibrate(lambda s: ContourEvolution(s, 0.0, clip=60.0), [disc], 0.8,
    ...                   np.random.default_rng(0), limit=60.0)
    >>> abs(found.strength - 40 * (1.5**0.5 - 1)) < 1  # Dice 2 / (1 + ratio) = 0.8 at ratio 1.5
    True
    """
    check_number("target_dice", target_dice, low=0.0, high=1.0, is_open=True)
    check_number("high", high, low=0.0, high=limit, is_open=True)
    check_integer("evaluations", evaluations, 2)
    if target_dice == 1.0 or not any(np.any(m) for m in masks):
        raise DataError(
            "expected a target Dice below 1 and at least one mask with foreground, found "
            f"{target_dice:g} and {len(masks)} masks"
        )
    streams = generator(rng).integers(2**63, size=len(masks)).tolist()

    def measure(strength: float) -> float:
        model = noise_family(strength)
        pairs = zip(masks, streams, strict=True)
        return float(np.mean([mean_dice(m, model(m, np.random.default_rng(s))) for m, s in pairs]))

    low, tried = 0.0, 1
    reached = measure(high)
    while reached > target_dice:
        if high >= limit:
            raise RecipeError(
                f"the noise gives a Dice of {reached:.3f} at its largest strength {limit:g}, "
                f"the target {target_dice:g} is out of reach; raise limit or the target"
            )
        low, high = high, min(2.0 * high, limit)
        reached, tried = measure(high), tried + 1
    strength = high
    while abs(reached - target_dice) > tolerance and tried < evaluations:
        strength = 0.5 * (low + high)
        reached, tried = measure(strength), tried + 1
        low, high = (strength, high) if reached > target_dice else (low, strength)
    return Calibration(strength, noise_family(strength), reached, tried)
