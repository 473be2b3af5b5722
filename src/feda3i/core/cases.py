"""Cases in memory, and how they are divided among sites."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.format import by
from feda3i.core.ragged import Ragged, Stack, hash_into
from feda3i.errors import DataError

Images = NDArray[Any]
Masks = NDArray[np.uint8]
Index = NDArray[np.intp]
DTYPES = ("uint8", "int16", "float32")
"""Types that images may have: bytes, or values as a scanner gave them."""


@dataclass(frozen=True)
class Cases:
    """Images with their masks, held once: arrays, or Ragged where the cases have their own sizes.

    Arrays may be memory-mapped. Tuples are empty, and the rest ``None``, if unknown.
    """

    ids: tuple[str, ...]
    """One stable name per case, unique in the set: random draws and site memory refer to it."""
    images: Any
    """``(case, *space, channel)`` in two or three dimensions, ``uint8``, ``int16``, ``float32``."""
    masks: Any
    """``(case, *space)``, ``uint8``: 0 is background, 1..C the foreground classes."""
    sources: tuple[str, ...] = ()
    """Where each case comes from: scanner, archive."""
    spacing: NDArray[np.float64] | None = None
    """``(case, dimension)`` size of a pixel in millimetres; ``None`` means distances in pixels."""
    sites: tuple[str, ...] = ()
    """The real site that each case comes from; empty if sites are simulated."""
    zoom: NDArray[np.float64] | None = None
    """``(case, dimension)`` size of a pixel in pixels of the original file."""
    groups: tuple[str, ...] = ()
    """The patient that each case comes from, or what else must stay together."""

    def __post_init__(self) -> None:
        if not _fit(self.images, self.masks) or len(self.ids) != len(self.masks):
            wanted = "images (case, *space, channel), masks (case, *space), one id per case"
            found = f"images {_sizes(self.images)}, masks {_sizes(self.masks)}"
            raise DataError(f"expected {wanted}; found {found}, {len(self.ids)} ids")
        if self.images.dtype not in DTYPES or self.masks.dtype != np.uint8:
            found = f"images {self.images.dtype}, masks {self.masks.dtype}"
            raise DataError(
                f"expected images of {', '.join(DTYPES)}, masks of uint8; found {found}"
            )
        if len(set(self.ids)) != len(self.ids):
            twice = sorted({i for i in self.ids if self.ids.count(i) > 1})[:3]
            raise DataError(f"case ids must be unique; found more than once: {', '.join(twice)}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the size in space of every case; raise ``DataError`` if sizes differ."""
        if isinstance(self.masks, Ragged):
            least, most = self.masks.shapes.min(axis=0), self.masks.shapes.max(axis=0)
            raise DataError(
                f"the cases have sizes from {by(least)} to {by(most)}: give train.patch, so that "
                "a network trains on patches of one size, or data.size, to bring all to one size"
            )
        return tuple(self.masks.shape[1:])

    @property
    def is_ragged(self) -> bool:
        """Return whether cases have sizes of their own."""
        return isinstance(self.masks, Ragged)

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions in space."""
        return int(self.masks.ndim) - 1

    @property
    def usual_shape(self) -> tuple[int, ...]:
        """Return the size of the cases; the median along each side where sizes differ."""
        if isinstance(self.masks, Ragged):
            return tuple(int(side) for side in np.median(self.masks.shapes, axis=0))
        return self.shape

    @property
    def channels(self) -> int:
        """Return the number of image channels."""
        return int(self.images[0].shape[-1] if self.is_ragged else self.images.shape[-1])

    def voxels(self) -> NDArray[np.float64] | None:
        """Return ``(case, dimension)`` sizes of voxels relative to the smallest side of each case.

        ``None`` for pictures, which are measured in pixels as in the paper, and for equal sides.
        """
        if self.spacing is None or self.dimensions != 3:
            return None
        sizes: NDArray[np.float64] = self.spacing / self.spacing.min(axis=1, keepdims=True)
        return None if np.allclose(sizes, 1.0, rtol=0, atol=1e-3) else sizes

    def take(self, index: Index | slice) -> Cases:
        """Return the cases at these positions (copies the pixels), or of a slice (does not)."""
        places = np.arange(len(self))[index].tolist()

        def taken(values: Any) -> Any:
            if isinstance(values, tuple):
                return tuple(values[place] for place in places) if values else ()
            return None if values is None else values[index]

        return Cases(*(taken(getattr(self, field.name)) for field in fields(self)))

    def digest(self) -> str:
        """Return the SHA-256 of ids, images and masks: the same bytes, the same data."""
        sha = hashlib.sha256("\0".join(self.ids).encode())
        for array in (self.images, self.masks):
            hash_into(sha, array)
        return sha.hexdigest()


@dataclass(frozen=True)
class Federation:
    """Training cases divided among sites, and test cases with trusted masks."""

    train: Cases
    """All training cases, one array for all sites."""
    sites: Mapping[str, Index]
    """Name of a site -> positions of its cases in ``train``. Sites are visited in sorted order."""
    test: Cases
    """Cases with clean masks that no site trains on."""
    classes: tuple[str, ...] = ("lesion",)
    """Names of the foreground classes; mask value k is ``classes[k - 1]``."""
    clean_masks: Any = None
    """The underlying truth of ``train``, known in simulations only: same shape as the masks."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What else is worth recording: partition, noise parameters by site, licence."""
    validation: Mapping[str, Index] = field(default_factory=dict)
    """Name of a site -> positions in ``train`` that it keeps for validation, not in ``sites``."""

    def __post_init__(self) -> None:
        if not self.sites:
            raise DataError("a federation needs at least one site, found none")
        empty = [name for name, index in self.sites.items() if len(index) == 0]
        if empty:
            found = f"{len(empty)} of {len(self.sites)} sites have no case (first: {empty[0]})"
            raise DataError(f"{found}; use fewer sites than the {len(self.train)} training cases")
        every = (*self.sites.values(), *self.validation.values())
        used = np.concatenate([np.asarray(index) for index in every])
        if len(np.unique(used)) != len(used):
            raise DataError("a case belongs to one site only; found cases given to several sites")
        shared = set(self.train.ids) & set(self.test.ids)
        if shared:
            raise DataError(f"training and test cases overlap: {', '.join(sorted(shared)[:3])}")

    def names(self) -> list[str]:
        """Return the names of the sites in the order that every sum uses."""
        return sorted(self.sites)

    def site(self, name: str) -> Cases:
        """Return one site's cases."""
        return self.train.take(np.asarray(self.sites[name]))

    def digest_of_sites(self) -> str:
        """Return the SHA-256 of which case belongs to which site."""
        sha = hashlib.sha256()
        for name in self.names():
            sha.update("\0".join((name, *(self.train.ids[i] for i in self.sites[name]))).encode())
            sha.update(b"\n")
        return sha.hexdigest()

    def with_masks(self, masks: Stack, **notes: Any) -> Federation:
        """Return the federation with other training masks; the old ones become the clean ones."""
        clean = self.train.masks if self.clean_masks is None else self.clean_masks
        train, notes = replace(self.train, masks=masks), {**self.notes, **notes}
        return replace(self, train=train, clean_masks=clean, notes=notes)


def _fit(images: Stack, masks: Stack) -> bool:
    """Return whether images have the masks' sizes, and one number of channels."""
    if isinstance(images, Ragged) and isinstance(masks, Ragged):
        shapes, drawn = images.shapes, masks.shapes
        fit = shapes[:, :-1].shape == drawn.shape and bool((shapes[:, :-1] == drawn).all())
        return fit and len(set(shapes[:, -1].tolist())) <= 1
    if isinstance(images, Ragged) or isinstance(masks, Ragged):
        return False
    return images.shape[:-1] == masks.shape


def _sizes(stack: Stack) -> str:
    return f"{len(stack)} of several sizes" if isinstance(stack, Ragged) else str(stack.shape)


def in_own_pixels(cases: Cases) -> tuple[Cases, str]:
    """Return cases whose distances are in millimetres or pixels of the original, and the unit."""
    if cases.spacing is not None:
        return cases, "mm"
    if cases.zoom is None:
        return cases, "px"
    return replace(cases, spacing=cases.zoom), "px of the original images"
