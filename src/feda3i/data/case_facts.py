"""What ``check`` keeps of a case: no name and no pixels."""

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from feda3i.core.cases import Images, Masks
from feda3i.reading.decode import RawCase, read_pictures
from feda3i.reading.file_list import read_file
from feda3i.reading.listing import Listing
from feda3i.reading.match import Pair
from feda3i.reading.picture import Note
from feda3i.reading.problems import CaseError

_CLEARLY = 1.25  # times by which edges as stored must be stronger before it is told


@dataclass(frozen=True)
class Facts:
    """What is kept of one case."""

    shape: tuple[int, ...]
    channels: int
    share: float  # of the mask that is foreground
    values: frozenset[int]  # of the mask
    digest: str  # of the image, to find it again
    spacing: tuple[float, ...]
    notes: tuple[Note, ...]


def look_at(listing: Listing, case: Pair) -> Facts:
    """Return the facts of a case; ``CaseError`` if it cannot be read."""
    raw = listing.read(case)
    notes = list(raw.notes)
    if listing.options.whole and raw.mask.ndim != 3:
        text = "a folder of volumes holds a picture with a mask: keep them in separate folders"
        raise CaseError("picture among volumes", text)
    if listing.options.whole and not raw.spacing:
        text = "the file has no voxel size: distances are counted in voxels"
        notes.append(("spacing missing", text))
    if ("EXIF rotation", "turned upright") in notes and len(case.images) == 1:
        notes += _judge_orientation(raw, case, listing)
    return Facts(
        shape=raw.mask.shape,
        channels=raw.image.shape[-1],
        share=float(np.count_nonzero(raw.mask)) / raw.mask.size,
        values=frozenset(np.unique(raw.mask).tolist()),
        digest=hashlib.sha256(f"{raw.image.shape}".encode() + raw.image.tobytes()).hexdigest(),
        spacing=raw.spacing,
        notes=tuple(notes),
    )


def _judge_orientation(raw: RawCase, case: Pair, listing: Listing) -> list[Note]:
    """Return a finding if a mask fits its picture as stored clearly better than turned upright.

    Reading turns pictures by their EXIF tag, and sizes cannot tell of a square or mirrored picture
    whether its mask was drawn before that.
    """
    if case.consensus:
        return []
    image, *masks = (read_file(file.place) for file in (case.images[0], *case.masks))
    try:
        flat = read_pictures(image, masks, listing.options, upright=False)
    except CaseError:  # the mask does not have the size of the stored picture
        return []
    stored, upright = (_edge_evidence(one.image, one.mask) for one in (flat, raw))
    if stored < _CLEARLY * upright:
        return []
    text = (
        f"the edges under its mask are {stored / max(upright, 1e-6):.1f} times as strong if the "
        "picture is taken as stored: if the mask was drawn so, remove the tag from the picture "
        "(exiftool -Orientation= FILE); reading turns it upright"
    )
    return [("mask drawn before EXIF rotation", text)]


def _edge_evidence(image: Images, mask: Masks) -> float:
    """Return how strong the edges along a mask's contour are, in those of the whole image."""
    grey = ndimage.gaussian_filter(image.mean(axis=-1, dtype=np.float32), 1.0)
    strength = ndimage.gaussian_gradient_magnitude(grey, 1.0)
    drawn = mask > 0
    border = ndimage.binary_dilation(drawn) & ~ndimage.binary_erosion(drawn)
    usual = float(strength.mean())
    return float(strength[border].mean()) / usual if border.any() and usual > 0 else 0.0
