"""Names of files and cases: pairing images with masks, and ids that are safe on every system."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

Role = Literal["images", "masks"]
PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
VOLUMES = (".nii.gz", ".nii", ".nrrd", ".mha")
DICOM = (".dcm", ".dicom")
# Pictures and volumes that are not read: told, not passed over.
UNREAD = (
    *(".gif", ".webp", ".jp2", ".j2k", ".heic", ".heif", ".tga", ".ppm", ".pgm", ".psd", ".svs"),
    *(".ndpi", ".mhd", ".nhdr", ".ima"),
)
# Names of folders of images and of masks.
FOLDERS: dict[Role, str] = {
    "images": "images?|imgs?|originals?",
    "masks": "masks?|segmentations?|gts?|ground[_ -]?truth|labels?|annotations?",
}
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
}

# One patient: BUS-BRA writes the side (bus_0358-l, bus_0358-r), others the eye (RET002OD).
GROUP = r"(?P<group>.+)(?:-[lrs]|(?<=\d)O[DS])"

_MASK_WORDS = f"{FOLDERS['masks']}|seg|lesions?|contours?"
_MASK_ENDING = re.compile(rf"[-_ .]+(?:{_MASK_WORDS})(?:[-_ ]?\d+)?$", re.IGNORECASE)
_MASK_START = re.compile(rf"^(?:{_MASK_WORDS})[-_ .]+", re.IGNORECASE)
_MASK_ONLY = re.compile(rf"(?:{_MASK_WORDS})(?:[-_ ]?\d+)?", re.IGNORECASE)
_FREE_WORDS = (re.compile(r"^[A-Za-z]+[-_ .]+"), re.compile(r"[-_ .]+[A-Za-z]+$"))


def split_extension(name: str) -> tuple[str, str]:
    """Return stem and lower-case extension; ``.nii.gz`` is one extension."""
    for extension in (*VOLUMES, *PICTURES, *DICOM):
        if name.lower().endswith(extension):
            return name[: -len(extension)], extension
    return name, ""


def mask_keys(stem: str) -> list[str]:
    """Return what a mask's stem may be without the word for a mask at its end, start or alone.

    >>> [mask_keys(s) for s in ("ISIC_1_Segmentation", "benign (4)_mask_1", "mask_7", "case7")]
    [['ISIC_1'], ['benign (4)'], ['7', ''], []]
    """
    folder, slash, name = stem.rpartition("/")
    left = [pattern.sub("", name) for pattern in (_MASK_ENDING, _MASK_START)]
    keys = [key for key in left if key not in ("", name)]
    if _MASK_ONLY.fullmatch(name):
        keys.append("")
    return [folder + slash + key for key in keys]


def image_keys(stem: str) -> list[str]:
    """Return the stem of an image without the word at its beginning or end.

    >>> image_keys("bus_7"), image_keys("bus_0001-l"), image_keys("a")
    (['7'], ['0001-l', 'bus_0001'], [])
    """
    folder, slash, name = stem.rpartition("/")
    left = [pattern.sub("", name) for pattern in _FREE_WORDS]
    return [folder + slash + key for key in left if key != name]


def group_of(name: str, pattern: str | None = None) -> str:
    """Return what keeps cases together in a split: the group by a pattern, or the name itself.

    >>> group_of("bus_0358-l"), group_of("RET002OD"), group_of("ISIC_0000001")
    ('bus_0358', 'RET002', 'ISIC_0000001')
    """
    found = re.fullmatch(pattern or GROUP, name)
    return found["group"] or name if found else name


def safe_name(name: str) -> str:
    """Return an ASCII name that every file system takes; names that lost letters get a hash.

    >>> safe_name("Muttermal 7"), safe_name("日本")[:5]
    ('Muttermal_7', 'case-')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    safe = re.sub(r"[^A-Za-z0-9.-]+", "_", plain).strip("._-")[:80]
    return safe if safe and name.isascii() else f"{safe or 'case'}-{_hash_tag(name)}"


def folder_name(site: str) -> str:
    """Return a folder name for a site that cannot lead out of the parent folder."""
    is_safe = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", site)
    return site if is_safe else f"{safe_name(site)}-{_hash_tag(site)}"


def unique_ids(names: Sequence[str], short: Sequence[str] | None = None) -> list[str]:
    """Return one safe id per distinct name, also unique where upper and lower case are the same.

    All members of a clash get a hash of their own name, whatever the order of the files. Ids are
    made of the ``short`` names, if there are any.
    """
    return _told_apart([safe_name(name) for name in short or names], names)


def shown_names(names: Sequence[str]) -> list[str]:
    r"""Return names of sites as people write them: any script, but no invisible characters.

    Control characters go, blanks become one space, and names that then look the same get a hash.

    >>> shown_names(["Charité", "St. Mary's", "a\x1b[2Jb"])
    ['Charité', "St. Mary's", 'a[2Jb']
    """
    plain = []
    for name in names:
        seen = "".join(
            " " if char.isspace() else "" if unicodedata.category(char)[0] == "C" else char
            for char in unicodedata.normalize("NFC", name)
        )
        plain.append(" ".join(seen.split())[:80] or safe_name(name))
    return _told_apart(plain, names)


def _told_apart(made: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return what was made of names, with a hash of the name where two look the same."""
    taken = Counter(one.casefold() for one in made)
    return [
        one if taken[one.casefold()] == 1 else f"{one}-{_hash_tag(name)}"
        for one, name in zip(made, names, strict=True)
    ]


def _hash_tag(name: str) -> str:
    """Return the start of the name's hash; composed and decomposed accents agree."""
    text = unicodedata.normalize("NFC", name)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
