"""List the cases of a folder or table before any pixel is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from feda3i.errors import DataError, RecipeError
from feda3i.pool import cores
from feda3i.reading.consensus import consensus_of
from feda3i.reading.csv_table import is_table, read_table
from feda3i.reading.decode import RawCase, decode_pair
from feda3i.reading.file_list import FileEntry, list_files, read_file, unpack_command
from feda3i.reading.match import Pair
from feda3i.reading.names import DICOM, VOLUMES, split_extension, unique_ids
from feda3i.reading.nnunet import nnunet_classes
from feda3i.reading.options import DEFAULT_CLASSES, Options
from feda3i.reading.pairs import find_pairs, kind_of
from feda3i.reading.picture import is_grey
from feda3i.reading.problems import UNUSED, CaseError, Problem
from feda3i.reading.several_annotators import choose_masks, find_annotated
from feda3i.reading.usage import EMPTY, IMAGE, MASK, OTHER, Fates
from feda3i.reading.volume import count_slices

LAYOUT = (
    "expected images/ and masks/ with equal file names; masks beside images (a.png, a_mask.png); a "
    "folder per case; nnU-Net's imagesTr/ and labelsTr/; all perhaps in one folder per site or in "
    "train/ and test/; or a CSV table of image and mask"
)

Finder = Callable[[Sequence[FileEntry], Options], tuple[list[Pair], list[Problem]]]


@dataclass(frozen=True)
class Listing:
    """The cases of one folder in the order of their ids, and how to read them."""

    root: Path
    cases: tuple[Pair, ...]
    options: Options
    fates: Fates = field(default_factory=dict)  # of every file

    def read(self, case: Pair) -> RawCase:
        """Return a case as the options ask for it."""
        if case.part is not None:
            return _slices(replace(case, id="", part=None), self.options)[case.part]
        return next(_decoded(case, self.options))

    def with_masks_of(self, case: Pair, annotator: str | None = None) -> Pair:
        """Return a case with the masks of an annotator, see :func:`choose_masks`."""
        return choose_masks(case, self.options, annotator)

    def take(self, cases: Sequence[Pair]) -> Listing:
        """Return the same folder with these cases only, in this order."""
        return replace(self, cases=tuple(cases))


def list_cases(
    root: Path, options: Options, find: Finder | None = None
) -> tuple[Listing, list[Problem]]:
    """List a folder or table by its pairs of files, settle its options, and say what is wrong."""
    command = unpack_command(root.name, root.parent)
    if command and root.is_file():
        raise DataError(f"'{root}' is an archive: unpack it first, e.g. {command}")
    is_list = is_table(root)
    if not root.is_dir() and not is_list:
        raise DataError(f"there is no folder or table '{root}': {LAYOUT}")
    home = root.parent if is_list else root
    entries: list[FileEntry] = []
    if is_list:
        pairs, problems = read_table(read_file(root), home, options.group, options.allow_outside)
    else:
        entries, problems = list_files(root, options.allow_outside)
        pairs, wrong = (find or find_any)(entries, options)
        problems += wrong + _archives(root, entries)
    if not pairs and not problems:
        raise DataError(f"found no image with a mask in '{root}': {LAYOUT}")
    volumes = [pair.images[0].name for pair in pairs if pair.kind != "picture"]
    volumes += [entry.name for entry in entries if split_extension(entry.name)[1] in DICOM]
    if volumes and options.volumes is None:
        raise DataError(
            f"'{root}' holds volumes ({volumes[0]}): 'feda3i check {root}' prints the command to "
            "train on them (feda3i run own-volumes ...); they are read with data.volumes=whole or "
            "data.volumes=slices"
        )
    options = _settle(options.reading(), entries, pairs)
    ids = unique_ids([pair.name for pair in pairs], [pair.short for pair in pairs])
    named = (replace(pair, id=name) for name, pair in zip(ids, pairs, strict=True))
    cases = sorted(
        (c for pair in named for c in _cut(pair, options, problems)), key=attrgetter("id")
    )
    fates = _fates(entries, pairs, problems)
    if not is_list:
        held = {entry.name.split("/")[0] for entry in entries}
        found = (item.name for item in root.iterdir() if item.is_dir() and item.name[0] != ".")
        fates |= {f"{name}/": EMPTY for name in found if name not in held}
    if options.unused == "allow":
        problems = [replace(p, level="note") if p.kind in UNUSED else p for p in problems]
    return Listing(home, tuple(cases), options, fates), problems


def find_any(entries: Sequence[FileEntry], options: Options) -> tuple[list[Pair], list[Problem]]:
    """Pair files by their folders and names."""
    annotated, told, entries = find_annotated(entries, options)
    pairs, problems = find_pairs(entries, options.group)
    return annotated + pairs, told + problems


def holds_volumes(root: Path) -> bool:
    """Return whether there is a volume or DICOM file in a folder or table."""
    if is_table(root):
        text = root.read_bytes().lower()
        return any(ending.encode() in text for ending in (*VOLUMES, *DICOM))
    return root.is_dir() and any(kind_of(file.name) != "picture" for file in list_files(root)[0])


def _archives(root: Path, entries: Sequence[FileEntry]) -> list[Problem]:
    """Return the archives of a folder: unpacked already, or an error with the command to do so."""
    found = []
    for entry in entries:
        command, stem = unpack_command(entry.name, root), entry.name.split(".")[0]
        if command and any(other.name.startswith(f"{stem}/") for other in entries):
            text = f"the folder '{stem}' beside it is used"
            found.append(Problem("note", "archive skipped", entry.name, text))
        elif command:
            found.append(Problem("error", "archive not read", entry.name, f"unpack it: {command}"))
    return found


def _fates(
    entries: Iterable[FileEntry], pairs: Sequence[Pair], problems: Iterable[Problem]
) -> dict[str, str]:
    fates = {
        entry.name: "belongs to no case" if split_extension(entry.name)[1] else OTHER
        for entry in entries
    }
    reasons = {problem.name: problem.kind for problem in problems}
    fates |= {name: reasons[name] for name in fates if name in reasons}
    images = {file.name for pair in pairs for file in pair.images}
    masks = {file.name for pair in pairs for file in pair.files} - images
    return fates | dict.fromkeys(images, IMAGE) | dict.fromkeys(masks, MASK)


def _cut(case: Pair, options: Options, problems: list[Problem]) -> list[Pair]:
    """Return the slices of a volume as cases, or the case itself."""
    if case.kind == "picture" or options.whole:
        return [case]
    try:
        count = count_slices([file.place for file in case.images], options.axis)
    except CaseError as error:
        problems.append(error.problem(case.name))
        return []
    digits = len(str(count - 1))
    group = case.group or case.name  # the slices of one volume stay together
    return [
        replace(case, id=f"{case.id}_z{k:0{digits}d}", group=group, part=k) for k in range(count)
    ]


def _decoded(pair: Pair, options: Options) -> Iterator[RawCase]:
    if not pair.consensus:
        yield from decode_pair(pair, options)
        return
    own = [replace(pair, masks=files, consensus="") for _, files in pair.annotators]
    for same in zip(*(decode_pair(one, options) for one in own), strict=True):
        yield replace(same[0], mask=consensus_of([raw.mask for raw in same], pair.consensus))


@lru_cache(maxsize=cores())  # each thread reads the slices of its volume one after the other
def _slices(pair: Pair, options: Options) -> tuple[RawCase, ...]:
    return tuple(_decoded(pair, options))


def _settle(options: Options, entries: Sequence[FileEntry], pairs: Sequence[Pair]) -> Options:
    """Fill in what the options leave to the files: classes, and the number of channels."""
    if not options.classes:
        options = replace(options, classes=nnunet_classes(entries) or DEFAULT_CLASSES)
    files = max((len(pair.images) for pair in pairs if pair.kind != "series"), default=1)
    if options.channels not in (None, 1, 3, files):
        raise RecipeError(
            f"expected channels 1 (grey), 3 (colour) or {files} (files per case), "
            f"found {options.channels}"
        )
    if options.channels is not None:
        return options
    return replace(options, channels=files if files > 1 else 3 if _is_colour(pairs) else 1)


def _is_colour(pairs: Sequence[Pair]) -> bool:
    """Return whether any picture has colour, by the headers of the files."""
    for pair in pairs:
        with suppress(CaseError, OSError):  # named when it is read
            if pair.kind == "picture" and not is_grey(pair.images[0].place):
                return True
    return False
