"""Federations with known annotators for the benchmarks of offsets, and trusted masks beside them.

A folder holds ``images/`` and ``masks/`` somewhere below it, file names alike; what lies below a
``test/`` is for testing, otherwise a fifth of the patients is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i import recipe
from feda3i.core.cases import Cases, Federation
from feda3i.core.resize import resize_image, resize_mask
from feda3i.noise import apply_noise
from feda3i.noise.annotators import SETTINGS, NoiseSetting, annotators_of_setting
from feda3i.noise.model import Annotator
from feda3i.seeding import rng
from feda3i.simulation.federation import federation_of

ALL_OVER = NoiseSetting(20.0, 0.0, 10.0, 1.0)
NOISE = {**SETTINGS, "all-over": ALL_OVER}
TRUSTED, TEST = 32, 150


@dataclass(frozen=True)
class Setting:
    """A federation with annotators that are known, and cases with trusted masks."""

    federation: Federation
    trusted: Cases
    mu: NDArray[np.float64]

    @property
    def sites(self) -> list[Cases]:
        """Return the cases of each site, with noisy masks, in the order of ``mu``."""
        return [self.federation.site(name) for name in self.federation.names()]

    @property
    def clean(self) -> list[NDArray[np.uint8]]:
        """Return the clean masks of each site."""
        masks = self.federation.clean_masks
        assert masks is not None
        return [masks[self.federation.sites[name]] for name in self.federation.names()]


def make(
    data: str,
    noise: str,
    seed: int,
    *,
    size: int,
    sites: int = 40,
    cases: int = 16,
    test: int = 150,
) -> Setting:
    """Return cases drawn by the seed, divided among sites; ``mu`` is in px at 256.

    ``noise`` is a setting of the paper, ``all-over`` (all draw U(0, 20) px too large), ``careful``
    (N(0, 2) px), or ``clean``.
    """
    pool, held_out = _read(data, size)
    draw = rng(seed, "offset", Path(data).name)
    order = draw.permutation(len(pool))
    needed = sites * cases + TRUSTED
    if needed > len(pool):
        raise SystemExit(f"{data}: {needed} training cases are needed, found {len(pool)}")
    train = pool.take(order[: sites * cases])
    index = {f"site-{k + 1:02}": np.arange(k * cases, (k + 1) * cases) for k in range(sites)}
    tested = held_out.take(draw.permutation(len(held_out))[:TEST])
    federation = Federation(train, index, tested)
    if noise == "clean":
        federation = federation.with_masks(train.masks)
        return Setting(federation, pool.take(order[sites * cases : needed]), np.zeros(sites))
    if noise == "careful":
        annotators = _careful(list(index), size / 256, seed)
    else:
        annotators = annotators_of_setting(NOISE[noise], list(index), (size, size), seed)
    drawn = apply_noise(train.masks, train.ids, index, annotators, seed=seed)
    mu = np.array([_mu(annotators[name]) for name in sorted(index)])
    return Setting(federation.with_masks(drawn.masks), pool.take(order[sites * cases : needed]), mu)


def _careful(names: list[str], scale: float, seed: int) -> dict[str, Annotator]:
    """Return annotators who draw as good ones do: 2 px too far out or in, and wobble by as much."""
    mu = rng(seed, "careful").normal(0.0, 2.0, len(names))
    return {n: Annotator(m * scale, 2.0 * scale, scale) for n, m in zip(names, mu, strict=True)}


def _mu(annotator: Annotator) -> float:
    return annotator.mu / annotator.scale


@cache
def _read(data: str, size: int) -> tuple[Cases, Cases]:
    """Return training and test cases of a folder or of a synthetic data set."""
    if not Path(data).is_dir():
        wanted = [f"data={data}", f"data.size={size}", "data.sites=40", "data.cases=20"]
        made = federation_of(recipe.load(None, [*wanted, "data.test=150"]))
        return made.train, made.test
    files = sorted(file for file in Path(data).rglob("images/*") if file.is_file())
    names = [str(file.relative_to(data)) for file in files]
    is_test = np.array(["/test/" in f"/{name}" for name in names])
    if not is_test.any():
        is_test = np.array([_in_fifth(file.stem) for file in files])
    images, masks = zip(*(_case(file, size) for file in files), strict=True)
    cases = Cases(tuple(names), np.stack(images), np.stack(masks))
    return cases.take(np.flatnonzero(~is_test)), cases.take(np.flatnonzero(is_test))


def _in_fifth(stem: str) -> bool:
    """Return whether a patient is for testing; both sides (name-l, name-r) go together."""
    return bool(rng(0, "patient", re.sub(r"-\w$", "", stem)).random() < 0.2)


def _case(file: Path, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    image = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
    mask = cv2.imread(str(file.parents[1] / "masks" / f"{file.stem}.png"), cv2.IMREAD_GRAYSCALE)
    if image is None or mask is None:
        raise SystemExit(f"{file}: expected an image, and a mask masks/{file.stem}.png beside it")
    image = image[..., None] if image.ndim == 2 else image
    drawn = (mask > 0).astype(np.uint8)
    return resize_image(image, (size, size)), resize_mask(drawn, (size, size))
