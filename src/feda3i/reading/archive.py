"""List and read files in folders and archives; no name from an archive is ever unpacked to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO, cast

from feda3i.files import is_full
from feda3i.reading.limits import MAX_FILE_BYTES, MAX_UNPACK_RATIO, MIN_UNPACK_BYTES
from feda3i.reading.problems import CaseError, Problem

ARCHIVES = (".tar.gz", ".tar.bz2", ".tar.xz", ".zip", ".tar", ".tgz")
_OPENERS: dict[str, Callable[[Path], BinaryIO | io.BufferedIOBase]] = {
    ".tar.gz": gzip.GzipFile,
    ".tgz": gzip.GzipFile,
    ".tar.bz2": bz2.BZ2File,
    ".tar.xz": lzma.LZMAFile,
}
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError)
# What reading a member may raise: unknown compressions and passwords are errors of other kinds.
UNREADABLE = (*_BROKEN, NotImplementedError, RuntimeError, ValueError)
_MAX_VISITS = 100  # of one folder by way of links
_JUNK = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})


@dataclass(frozen=True)
class FileEntry:
    """One file: where its bytes are, and the name it goes by."""

    name: str
    """Path with forward slashes relative to the folder listed; files of an archive appear in a
    folder named after the archive."""
    place: str  # the file on disk: the file itself or its archive
    size: int
    member: str = ""  # name in the archive
    mtime: int = 0


def list_entries(root: Path, scratch: Path | None = None) -> tuple[list[FileEntry], list[Problem]]:
    """Return all files under a folder or in an archive, archives inside the folder included.

    Compressed tar archives cannot be read at random: they are inflated into the folder ``scratch``,
    as one file. Without it archives inside a folder are not looked into.
    """
    if root.is_file():
        try:
            return list(_list_archive(root, "", scratch)), []
        except CaseError as error:
            return [], [error.problem(root.name)]
    entries: list[FileEntry] = []
    problems: list[Problem] = []
    for entry in _list_folder(str(root), "", problems, Counter()):
        stem, kind = split_archive(entry.name)
        if not kind or scratch is None:
            entries.append(entry)
        elif (root / stem).is_dir():
            text = f"the folder '{stem}' beside it is used instead"
            problems.append(Problem("note", "archive skipped", entry.name, text))
        else:
            try:
                entries.extend(_list_archive(Path(entry.place), f"{stem}/", scratch))
            except CaseError as error:
                problems.append(error.problem(entry.name))
    return entries, problems


def split_archive(name: str) -> tuple[str, str]:
    """Return stem and extension if the name is that of an archive, else the name and ``""``."""
    for extension in ARCHIVES:
        if name.lower().endswith(extension):
            return name[: -len(extension)], extension
    return name, ""


def is_safe(member: str) -> bool:
    """Return whether a name in an archive stays inside it.

    >>> [is_safe(m) for m in ("a/b.png", "../b.png", "/etc/x", "C:/x", "a/../../b")]
    [True, False, False, False, False]
    """
    parts = member.split("/")
    return not (
        member.startswith("/") or ".." in parts or "\0" in member or re.match(r"[A-Za-z]:", member)
    )


class Reader:
    """Read entries; archives stay open between reads. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self._archives: dict[str, zipfile.ZipFile | tarfile.TarFile] = {}
        self._members: dict[str, dict[str, tarfile.TarInfo]] = {}  # tarfile itself looks at each

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for archive in self._archives.values():
            archive.close()
        self._archives.clear()

    def open(self, entry: FileEntry) -> IO[bytes]:
        """Open an entry; its first byte is at position 0."""
        place = entry.place
        if not entry.member:
            return open(place, "rb")
        if place not in self._archives:
            is_zip = split_archive(place)[1] == ".zip"
            self._archives[place] = zipfile.ZipFile(place) if is_zip else tarfile.TarFile(place)
        archive = self._archives[place]
        if isinstance(archive, zipfile.ZipFile):
            return archive.open(entry.member)
        if place not in self._members:
            self._members[place] = {info.name: info for info in archive}
        # It is None for a folder, and folders are not listed.
        return cast(IO[bytes], archive.extractfile(self._members[place][entry.member]))

    def read(self, entry: FileEntry) -> bytes:
        """Return the bytes of an entry, at most ``MAX_FILE_BYTES``."""
        if entry.size == 0:
            raise CaseError("empty file", "the file has 0 bytes: copy it again")
        if entry.size > MAX_FILE_BYTES:
            raise CaseError(
                "file too large", f"{entry.size} bytes; at most {MAX_FILE_BYTES} are read"
            )
        try:
            with self.open(entry) as file:
                data = file.read(entry.size)
        except UNREADABLE as error:
            raise CaseError("unreadable file", f"{error}: copy it again") from None
        if len(data) < entry.size:
            raise CaseError(
                "half-copied file", f"expected {entry.size} bytes, found {len(data)}: copy it again"
            )
        return data


def read_file(path: Path) -> bytes:
    """Return the bytes of one plain file; ``CaseError`` if it is empty, too large, unreadable."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CaseError("unreadable file", str(error.strerror)) from None
    with Reader() as reader:
        return reader.read(FileEntry(path.name, str(path), size))


def _list_folder(
    folder: str, prefix: str, problems: list[Problem], visits: Counter[str], *parents: str
) -> Iterator[FileEntry]:
    """Yield the files below a folder; report what cannot be opened as a problem."""
    try:
        real = os.path.realpath(folder)
        with os.scandir(folder) as found:
            items = sorted(found, key=lambda item: item.name)
    except OSError as error:
        problems.append(_unreadable(prefix.rstrip("/") or ".", error))
        return
    visits[real] += 1
    if real in parents or visits[real] > _MAX_VISITS:  # links that lead back, or in many circles
        return
    for item in items:
        if item.name.startswith(".") or item.name in _JUNK:
            continue
        name = prefix + _readable(item.name)
        try:
            if item.is_dir():
                yield from _list_folder(item.path, f"{name}/", problems, visits, *parents, real)
            elif item.is_file():
                info = item.stat()
                yield FileEntry(name, item.path, info.st_size, mtime=info.st_mtime_ns)
        except OSError as error:  # a link to itself
            problems.append(_unreadable(name, error))


def _unreadable(name: str, error: OSError) -> Problem:
    return Problem("error", "unreadable file", name, f"{error.strerror}: repair or remove it")


def _readable(name: str) -> str:
    """Return the name in composed Unicode (macOS stores accents apart), bad bytes escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", text)


def _list_archive(path: Path, prefix: str, scratch: Path | None) -> list[FileEntry]:
    _, kind = split_archive(path.name)
    if not kind:
        raise CaseError("not an archive", f"expected a folder or one of {', '.join(ARCHIVES)}")
    try:
        found = _list_zip(path) if kind == ".zip" else _list_tar(_inflate(path, kind, scratch))
    except CaseError:
        raise
    except UNREADABLE as error:
        if isinstance(error, OSError) and is_full(error):  # of the scratch folder, not the archive
            raise
        raise CaseError("half-copied archive", f"{error}: copy or download it again") from None
    names = set()
    for entry in found:
        if not is_safe(entry.name):
            raise CaseError("unsafe archive", f"refused: '{entry.name}' points outside the archive")
        if entry.name in names:
            raise CaseError("unsafe archive", f"refused: it holds '{entry.name}' twice")
        names.add(entry.name)
    return [
        replace(entry, name=prefix + entry.name)
        for entry in sorted(found, key=lambda e: e.name)
        if not any(part.startswith(".") or part in _JUNK for part in entry.name.split("/"))
    ]


def _list_zip(path: Path) -> list[FileEntry]:
    found = []
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise CaseError("unsafe archive", f"refused: '{info.filename}' is a link")
            if info.flag_bits & 1:
                raise CaseError(
                    "locked archive", f"'{info.filename}' needs a password: unpack it first"
                )
            if not info.is_dir():
                name = unicodedata.normalize("NFC", info.filename.replace("\\", "/"))
                found.append(FileEntry(name, str(path), info.file_size, info.filename))
    return found


def _list_tar(path: Path) -> list[FileEntry]:
    found = []
    with tarfile.open(path, "r:") as archive:
        for info in archive:
            if not (info.isfile() or info.isdir()):
                raise CaseError("unsafe archive", f"refused: '{info.name}' is a link or a device")
            if info.isfile():
                name = unicodedata.normalize("NFC", info.name.removeprefix("./"))
                found.append(FileEntry(name, str(path), info.size, info.name))
                if info.offset_data + info.size > path.stat().st_size:
                    raise CaseError("half-copied archive", f"it ends within '{name}'")
    return found


def _inflate(path: Path, kind: str, scratch: Path | None) -> Path:
    """Return a plain tar: the archive itself, or its inflated copy in the scratch folder."""
    if kind == ".tar":
        return path
    if scratch is None:
        raise CaseError("compressed archive", "unpack it first")
    plain = scratch / f"{path.name}.tar"
    limit = max(MIN_UNPACK_BYTES, MAX_UNPACK_RATIO * path.stat().st_size)
    scratch.mkdir(parents=True, exist_ok=True)
    done = 0
    with _OPENERS[kind](path) as source, plain.open("wb") as target:
        while block := source.read(1 << 20):
            done += len(block)
            if done > limit:
                raise CaseError("archive bomb", f"refused: it inflates to more than {limit} bytes")
            target.write(block)
    return plain
