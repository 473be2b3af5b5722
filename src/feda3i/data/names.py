"""Names of files and cases: pairing images with masks, and ids that are safe on every system."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from feda3i.data.patterns import match_group

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
NIFTI = (".nii.gz", ".nii")
DICOM = (".dcm", ".dicom")
IMAGE_FOLDERS = frozenset({"images", "image", "imgs", "img", "original", "originals"})
MASK_FOLDERS = frozenset(
    {"masks", "mask", "gt", "gts", "groundtruth", "ground_truth", "ground truth", "ground-truth"}
    | {"segmentation", "segmentations", "labels", "label", "annotations"}
)
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}

# BUS-BRA writes case and side (bus_0358-l, bus_0358-r): both belong to one patient.
GROUP = r"(?P<group>.+)-[lrs]"

_MASK_ENDING = re.compile(
    r"[-_ .]+(?:mask|masks|seg|segmentation|gt|groundtruth|label|annotation)(?:[-_ ]?\d+)?$",
    re.IGNORECASE,
)
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def split_extension(name: str) -> tuple[str, str]:
    """Return stem and lower-case extension; ``.nii.gz`` is one extension.

    >>> split_extension("a/scan.1.NII.gz")
    ('a/scan.1', '.nii.gz')
    """
    for extension in (*NIFTI, *PICTURES, *DICOM):
        if name.lower().endswith(extension):
            return name[: -len(extension)], extension
    return name, ""


def strip_mask_ending(stem: str) -> str:
    """Return the image's stem for a mask's stem.

    >>> [strip_mask_ending(s) for s in ("ISIC_1_segmentation", "benign (4)_mask_1", "case7")]
    ['ISIC_1', 'benign (4)', 'case7']
    """
    return _MASK_ENDING.sub("", stem)


def group_of(name: str, pattern: str = GROUP) -> str:
    """Return what keeps cases together in a split: the pattern's group, or the name itself.

    >>> group_of("bus_0358-l"), group_of("ISIC_0000001")
    ('bus_0358', 'ISIC_0000001')
    """
    if pattern != GROUP:
        return match_group(pattern, name) or name
    found = re.fullmatch(GROUP, name)  # ours ends for sure
    return found.group("group") if found else name


def safe_name(name: str) -> str:
    """Return an ASCII name that every file system takes; names that had to change get a hash.

    >>> safe_name("Muttermal 7"), safe_name("benign (4)")
    ('Muttermal_7', 'benign_4')
    >>> safe_name("日本").startswith("case-")
    True
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    safe = re.sub(r"[^A-Za-z0-9.-]+", "_", plain).strip("._-")[:80]
    lost = not name.isascii() or _DEVICES.fullmatch(safe) is not None or not safe
    return f"{safe or 'case'}-{hash_tag(name)}" if lost else safe


def is_id(text: object) -> bool:
    """Return whether a text can be one of our ids: it names a file, and never a place elsewhere.

    >>> is_id("benign_4"), is_id("../x"), is_id(".hidden"), is_id("")
    (True, False, False, False)
    """
    return isinstance(text, str) and bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", text))


def unique_ids(names: Sequence[str], short: Sequence[str] | None = None) -> list[str]:
    """Return one safe id per distinct name, also unique where upper and lower case are the same.

    All members of a clash get a hash of their own name, so an id does not depend on which other
    file was seen first.

    Parameters
    ----------
    short
        What to make the ids of; the names themselves by default.

    >>> unique_ids(["a", "b"])
    ['a', 'b']
    >>> ids = unique_ids(["Mole", "mole"])
    >>> ids[0].startswith("Mole-"), ids[1].startswith("mole-"), ids[0][5:] != ids[1][5:]
    (True, True, True)
    """
    safe = [safe_name(name) for name in short or names]
    taken = Counter(name.casefold() for name in safe)
    return [
        s if taken[s.casefold()] == 1 else f"{s}-{hash_tag(name)}"
        for s, name in zip(safe, names, strict=True)
    ]


def hash_tag(name: str) -> str:
    """Return eight hexadecimal digits of the name's hash; composed and decomposed accents agree."""
    text = unicodedata.normalize("NFC", name)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
