"""Noise of a federation: the noisy masks of all cases, each drawn by the annotator of its site."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.basics.parallel import ordered_map
from feda3i.core.ragged import Stack, hash_into, own_copy
from feda3i.errors import DataError, RecipeError
from feda3i.noise.at_size import DrawnAtSize, annotator_at
from feda3i.noise.calibrate import mean_dice
from feda3i.noise.model import Annotator, Mask, NoiseModel
from feda3i.registry import Registry

Masks = NDArray[np.uint8]
Sites = Mapping[str, NDArray[np.intp]]

REGISTRY = Registry(
    kind="noise model",
    builtin={
        "contour": "feda3i.noise.contour:ContourEvolution",
        "levelset": "feda3i.noise.levelset:SignedDistanceEvolution",
        "flip": "feda3i.noise.flip:ClassConditional",
        "morphology": "feda3i.noise.morphology:MorphologicalNoise",
        "markov": "feda3i.noise.markov:MarkovNoise",
    },
    entry_points="feda3i.noise",
)
DRAWN_AT = "drawn_at"
CHUNK = 32  # cases that a worker process takes at a time


@dataclass(frozen=True)
class NoisyCase:
    """What the noise did to one case: ``mu`` and ``sigma`` in its pixels, Dice and area ratio.

    The area ratio is noisy / clean foreground; not a number if the clean mask is empty.
    """

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


def build_model(
    name: str, annotator: Annotator, options: Mapping[str, Any] | None = None
) -> NoiseModel:
    """Return the noise model of this name for an annotator.

    A plug-in class without ``for_annotator`` is called with ``mu``, ``sigma`` and the options.
    Only a class whose objects can be called is, or a function of ``mu`` and ``sigma``. The option
    ``drawn_at`` belongs to none of them: masks are enlarged to that many pixels a side, changed
    there, and brought back.

    >>> build_model("contour", Annotator(-5.0, 1.0), {"mode": "faithful"}).mode
    'faithful'
    """
    given = dict(options or {})
    if DRAWN_AT in given:
        larger, factor = annotator_at(annotator, given.pop(DRAWN_AT))
        return DrawnAtSize(build_model(name, larger, given), factor)
    kind = REGISTRY.get(name)
    if not _makes_noise(kind):
        raise RecipeError(
            f"noise model '{name}': expected a class with __call__(mask, rng) or a function of mu "
            f"and sigma, found {kind!r}"
        )
    make = getattr(kind, "for_annotator", None)
    call = (
        partial(make, annotator) if make else partial(kind, mu=annotator.mu, sigma=annotator.sigma)
    )
    try:
        inspect.signature(call).bind(**given)
    except TypeError as error:
        raise RecipeError(f"noise model '{name}' cannot be made: {error}") from None
    model = call(**given)
    if not isinstance(model, NoiseModel):
        raise RecipeError(f"noise model '{name}': expected a callable (mask, rng), found {model!r}")
    return model


def _makes_noise(kind: Any) -> bool:
    if isinstance(kind, type):
        return any("__call__" in vars(base) for base in kind.__mro__)
    return inspect.isfunction(kind) and {"mu", "sigma"} <= set(inspect.signature(kind).parameters)


def noisy_case(
    model: NoiseModel,
    annotator: Annotator,
    mask: Mask,
    seed: int,
    site: str,
    case: str,
    spacing: Sequence[float] | None = None,
) -> tuple[Mask, NoisyCase]:
    """Return the noisy mask of one case; its draws depend on (seed, site, case) only.

    ``spacing`` is the size of a voxel along each axis, for models that measure distances in volumes
    (``for_spacing``).
    """
    if spacing is not None and hasattr(model, "for_spacing"):
        model = model.for_spacing(spacing)
    noisy = model(mask, seeding.rng(seed, "noise", site, case))
    if noisy.shape != mask.shape or noisy.dtype != mask.dtype:
        raise DataError(
            f"{site}/{case}: expected a noisy mask {mask.shape} {mask.dtype}, found {noisy.shape} "
            f"{noisy.dtype} from {model!r}"
        )
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
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    spacing: NDArray[np.float64] | None = None,
) -> NoisyMasks:
    """Return the masks of all cases as the annotators of their sites would draw them.

    Parameters
    ----------
    masks
        Clean masks ``(case, *space)``; cases of no site are copied.
    sites
        Name of a site -> positions of its cases.
    annotators
        Name of a site -> its annotator; one for every site.
    workers
        Processes; the result is the same for any number.
    progress
        Called with the number of cases just finished.
    spacing
        ``(case, dimension)`` size of a voxel along each axis; ``None`` if all sides are equal.

    >>> masks = np.zeros((2, 64, 64), np.uint8); masks[:, 20:44, 20:44] = 1
    >>> sites, drawer = {"s": np.array([0, 1])}, {"s": Annotator(3, 1)}
    >>> done = apply_noise(masks, ["a", "b"], sites, drawer, seed=0)
    >>> all(row.area_ratio > 1 for row in done.table)
    True
    """
    if len(ids) != len(masks):
        raise DataError(f"expected one id per mask, found {len(ids)} ids and {len(masks)} masks")
    missing = sorted(set(sites) - set(annotators))
    if missing:
        raise RecipeError(f"expected an annotator for every site, found none for {missing[0]}")
    noisy, rows = own_copy(masks), []
    jobs = list(_jobs(sites, annotators, name, dict(options or {}), seed))
    tasks = (
        (
            site,
            maker,
            [np.asarray(masks[i]) for i in positions],
            [ids[i] for i in positions],
            None if spacing is None else spacing[positions],
        )
        for site, maker, positions in jobs
    )
    results = ordered_map(_noise_of, tasks, min(max(workers, 1), len(jobs) or 1))
    for (_, _, positions), (changed, table) in zip(jobs, results, strict=True):
        for position, one in zip(positions, changed, strict=True):
            noisy[int(position)] = one
        rows.extend(table)
        if progress:
            progress(len(positions))
    return NoisyMasks(noisy, tuple(rows))


Maker = tuple[str, Annotator, dict[str, Any], int]
Portion = tuple[str, Maker, NDArray[np.intp]]
PortionTask = tuple[str, Maker, list[Masks], list[str], NDArray[np.float64] | None]


def _jobs(
    sites: Sites,
    annotators: Mapping[str, Annotator],
    name: str,
    options: dict[str, Any],
    seed: int,
) -> Iterator[Portion]:
    for site in sorted(sites):
        build_model(name, annotators[site], options)  # wrong options fail here, not in a process
        positions = np.asarray(sites[site])
        for first in range(0, len(positions), CHUNK):
            maker = (name, annotators[site], options, seed)
            yield site, maker, positions[first : first + CHUNK]


def _noise_of(task: PortionTask) -> tuple[list[Mask], list[NoisyCase]]:
    site, (name, annotator, options, seed), masks, ids, spacing = task
    model = build_model(name, annotator, options)
    noisy, rows = [], []
    for k, case in enumerate(ids):
        voxel = None if spacing is None else spacing[k].tolist()
        drawn, row = noisy_case(model, annotator, masks[k], seed, site, case, voxel)
        noisy.append(drawn)
        rows.append(row)
    return noisy, rows
