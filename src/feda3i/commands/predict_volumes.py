"""Masks of volumes, with the geometry of their images, and pictures in three planes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.normalise import Normalise, byte_picture
from feda3i.errors import DataError
from feda3i.files import write_file, write_png

if TYPE_CHECKING:
    from feda3i.core.predictor import Predictor

COLOURS = ((230, 60, 40), (60, 160, 255), (70, 220, 90), (250, 200, 40), (220, 90, 240))
_ZOOM = 4  # pixels of a picture per shortest side of a voxel


def predict_volume(predictor: Predictor, file: Path, stem: Path, overlay: bool) -> None:
    """Write ``STEM.nii.gz`` with the values 0..C, and ``STEM_overlay.png``.

    A folder is a series of DICOM slices.
    """
    from feda3i.reading.names import DICOM, split_extension
    from feda3i.reading.picture import as_kept
    from feda3i.reading.volume import check_spacing, read_volume, window_to_bytes, write_like

    form = predictor.format
    try:
        places = [str(file)]
        if file.is_dir():
            places = [str(f) for f in sorted(file.iterdir()) if split_extension(f.name)[1] in DICOM]
        volume = read_volume(places, form.axis)
        spacing = volume.spacing or (1.0,) * 3  # DICOM need not say
        check_spacing(spacing)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    if form.channels not in (1, 3):
        raise DataError(f"{file}: the model takes {form.channels} files per case; predict one")
    kept = as_kept(volume.values) if form.keeps_values else window_to_bytes(volume.values)
    pixels = np.repeat(kept[..., None], form.channels, axis=-1)
    mask = volume_mask(predictor, pixels, spacing)
    made = write_like(volume, mask, form.axis)
    write_file(stem.with_name(f"{stem.name}.nii.gz"), made, mode=0o600)
    if overlay:
        drawn = three_planes(pixels, mask, spacing, form.normalise)
        write_png(stem.with_name(f"{stem.name}_overlay.png"), drawn)


def volume_mask(
    predictor: Predictor, pixels: NDArray[Any], spacing: tuple[float, ...]
) -> NDArray[np.uint8]:
    """Return the mask of a volume ``(slice, row, column, channel)``, whole or slice by slice."""
    if predictor.format.dimensions == 3:
        return predictor.picture(pixels, spacing)
    return np.stack([predictor.picture(plane, spacing[1:]) for plane in pixels])


def three_planes(
    image: NDArray[Any], mask: NDArray[np.uint8], spacing: tuple[float, ...], rule: Normalise
) -> NDArray[np.uint8]:
    """Return the planes across each axis where the mask is fullest, with contours by class.

    They lie side by side, the pixels square in millimetres.
    """
    shown, drawn = byte_picture(image, rule), mask > 0
    planes = []
    for axis in range(3):
        others = tuple(a for a in range(3) if a != axis)
        full = drawn.sum(axis=others)
        place = int(full.argmax()) if full.any() else drawn.shape[axis] // 2
        sides = [spacing[a] for a in others]
        plane = np.take(shown, place, axis=axis)
        planes.append(_plane(plane, np.take(mask, place, axis=axis), sides))
    return _beside(planes)


def _plane(
    plane: NDArray[np.uint8], mask: NDArray[np.uint8], sides: list[float]
) -> NDArray[np.uint8]:
    import cv2

    scale = [_ZOOM * side / min(sides) for side in sides]
    size = (round(plane.shape[1] * scale[1]), round(plane.shape[0] * scale[0]))
    canvas = cv2.resize(np.ascontiguousarray(plane[..., 0]), size, interpolation=cv2.INTER_LINEAR)
    canvas = np.ascontiguousarray(np.repeat(canvas[..., None], 3, axis=-1))
    for k in np.unique(mask[mask > 0]):
        one = cv2.resize((mask == k).astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
        found, _ = cv2.findContours(one, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(canvas, found, -1, COLOURS[(int(k) - 1) % len(COLOURS)], 1)
    return np.asarray(canvas, np.uint8)


def _beside(planes: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    height = max(len(plane) for plane in planes)
    padded = [np.pad(p, ((0, height - len(p)), (0, 6), (0, 0))) for p in planes]
    return np.concatenate(padded, axis=1)
