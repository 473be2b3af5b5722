"""Noise of a federation: the noisy masks of all cases, each drawn by the annotator of its site."""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.core.ragged import Stack, hash_into
from feda3i.core.resize import resize_mask
from feda3i.errors import DataError, RecipeError, shown
from feda3i.metrics import dice_both_empty_one
from feda3i.noise.model import SIDE, Annotator, Mask, NoiseModel, classes_of
from feda3i.registry import Registry

Sites = Mapping[str, NDArray[np.intp]]

REGISTRY = Registry(
    kind="noise model",
    builtin={
        "contour": "feda3i.noise.contour:ContourEvolution",
        "levelset": "feda3i.noise.levelset:SignedDistanceEvolution",
        "flip": "feda3i.noise.other_models:ClassConditional",
        "morphology": "feda3i.noise.other_models:MorphologicalNoise",
        "markov": "feda3i.noise.other_models:MarkovNoise",
        "omit": "feda3i.noise.object_noise:Omission",
        "add": "feda3i.noise.object_noise:Addition",
        "swap": "feda3i.noise.object_noise:Swap",
    },
    entry_points="feda3i.noise",
)


@dataclass(frozen=True)
class NoisyCase:
    """What the noise did to one case; the area ratio is ``NaN`` if the clean mask is empty."""

    site: str
    case: str
    mu: float
    sigma: float
    dice: float
    area_ratio: float


@dataclass(frozen=True)
class NoisyMasks:
    """Noisy masks ``(case, *space)`` and one row per case, by site and then by position."""

    masks: Any  # an array, or Ragged where the cases have sizes of their own
    table: tuple[NoisyCase, ...]

    def digest(self) -> str:
        """Return the SHA-256 of the masks: the same bytes, the same noise."""
        sha = hashlib.sha256()
        hash_into(sha, self.masks)
        return sha.hexdigest()


@dataclass(frozen=True)
class DrawnAtSize:
    """A noise model that enlarges a mask by a factor, changes it there, and brings it back.

    The published noise drops contours shorter than 30 pixels: every tenth mask of 48 px a side.
    """

    model: NoiseModel
    factor: float

    def __call__(self, mask: Mask, rng: seeding.Draws) -> Mask:
        """Return the noisy mask of a mask with values 0 to 255."""
        sides = tuple(max(1, round(side * self.factor)) for side in mask.shape)
        drawn = self.model(resize_mask(mask.astype("uint8"), sides), seeding.generator(rng))
        return resize_mask(drawn, mask.shape).astype(mask.dtype)


def build_model(
    name: str, annotator: Annotator, options: Mapping[str, Any] | None = None
) -> NoiseModel:
    """Return the noise model of this name for an annotator.

    A plug-in without ``for_annotator`` is called with ``mu``, ``sigma`` and the options. The option
    ``drawn_at`` is for every model: masks are enlarged to that many pixels a side for it.

    >>> build_model("contour", Annotator(-5.0, 1.0), {"mode": "faithful"}).mode
    'faithful'
    """
    given = dict(options or {})
    if side := given.pop("drawn_at", None):
        if type(side) is not int or not 16 <= side <= 4096:
            raise RecipeError(f"drawn_at: expected pixels from 16 to 4096, found {shown(side)}")
        factor = side / SIDE / annotator.scale
        return DrawnAtSize(build_model(name, annotator.scaled(factor), given), factor)
    kind = REGISTRY.get(name)
    if not _makes_noise(kind):
        raise RecipeError(
            f"noise model '{name}': expected a class with __call__(mask, rng) or a function of mu "
            f"and sigma, found {kind!r}"
        )
    if hasattr(kind, "for_annotator"):
        call = partial(kind.for_annotator, annotator)
    else:
        call = partial(kind, mu=annotator.mu, sigma=annotator.sigma)
    try:
        inspect.signature(call).bind(**given)
    except TypeError as error:
        raise RecipeError(f"noise model '{name}' cannot be made: {error}") from None
    model = call(**given)
    if not isinstance(model, NoiseModel):
        raise RecipeError(f"noise model '{name}': expected a callable (mask, rng), found {model!r}")
    return model


def has_own_rates(name: str) -> bool:
    """Return whether a noise model takes nothing of an annotator."""
    fields_of = getattr(REGISTRY.get(name), "fields_of", None)
    return fields_of is not None and not fields_of(Annotator(1.0, 1.0))


def _makes_noise(kind: Any) -> bool:
    """Return whether this may be called: a recipe can name any class or function."""
    if isinstance(kind, type):
        return any("__call__" in vars(base) for base in kind.__mro__)
    return inspect.isfunction(kind) and {"mu", "sigma"} <= set(inspect.signature(kind).parameters)


def mean_dice(clean: Mask, noisy: Mask) -> float:
    """Return the Dice of two masks, averaged over the classes in either; 1 if both are empty."""
    values = sorted({*classes_of(clean), *classes_of(noisy)})
    scores = [dice_both_empty_one(noisy == v, clean == v) for v in values]
    return float(np.mean(scores)) if scores else 1.0


def noisy_case(
    model: NoiseModel,
    annotator: Annotator,
    mask: Mask,
    seed: int,
    site: str,
    case: str,
    spacing: Sequence[float] | None = None,
) -> tuple[Mask, NoisyCase]:
    """Return the noisy mask of one case; its draws depend on (seed, site, case) only."""
    if spacing is not None and hasattr(model, "for_spacing"):
        model = model.for_spacing(spacing)
    noisy = model(mask, seeding.rng(seed, "noise", site, case))
    if noisy.shape != mask.shape or noisy.dtype != mask.dtype:
        found = f"found {noisy.shape} {noisy.dtype} from {model!r}"
        raise DataError(f"{site}/{case}: expected a noisy mask {mask.shape} {mask.dtype}, {found}")
    area = int(np.count_nonzero(mask))
    ratio = np.count_nonzero(noisy) / area if area else float("nan")
    row = NoisyCase(site, case, annotator.mu, annotator.sigma, mean_dice(mask, noisy), ratio)
    return noisy, row


def apply_noise(
    masks: Stack,
    ids: Sequence[str],
    sites: Sites,
    annotators: Mapping[str, Annotator],
    *,
    seed: int,
    name: str = "contour",
    options: Mapping[str, Any] | None = None,
    spacing: NDArray[np.float64] | None = None,
) -> NoisyMasks:
    """Return the masks ``(case, *space)`` of all cases as the annotators of their sites draw them.

    ``sites`` has the positions of each site's cases (those of no site are copied), ``spacing`` is
    ``(case, dimension)``, the size of a voxel along each axis, ``None`` if all sides are equal.
    """
    noisy, rows = masks.copy(), []
    for site in sorted(sites):
        who = annotators[site]
        model = build_model(name, who, options)
        for place in np.asarray(sites[site]).tolist():
            voxel = None if spacing is None else spacing[place].tolist()
            mask, case = np.asarray(masks[place]), ids[place]
            noisy[place], row = noisy_case(model, who, mask, seed, site, case, voxel)
            rows.append(row)
    return NoisyMasks(noisy, tuple(rows))
