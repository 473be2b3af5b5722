"""List and read the files of a folder; links that lead outside it are refused."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from feda3i.errors import escaped, printable
from feda3i.reading.problems import CaseError, Problem

UNPACK = {".zip": "unzip '{}' -d '{}'"} | dict.fromkeys(
    (".tar.gz", ".tar.bz2", ".tar.xz", ".tar", ".tgz"), "tar -xf '{}' -C '{}'"
)
"""Endings of archives, and the command that unpacks each."""
MAX_FILE_BYTES = 2 * 1024**3  # a file is read whole into memory
OUTSIDE = "data.allow_outside=true (--allow-outside) if you mean it"
_JUNK = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})


@dataclass(frozen=True)
class FileEntry:
    """One file: the name it goes by (relative to the folder listed), and where it is."""

    name: str
    place: str
    size: int
    changed: int = 0  # nanoseconds: the later of its date and of the one that nobody can set

    @classmethod
    def of(cls, name: str, place: str, info: os.stat_result) -> FileEntry:
        """Return a file by what the system says of it."""
        return cls(name, place, info.st_size, max(info.st_mtime_ns, info.st_ctime_ns))


def list_files(root: Path, allow_outside: bool = False) -> tuple[list[FileEntry], list[Problem]]:
    """Return all files under a folder, sorted, and what cannot be opened or must not be."""
    walk = _Walk(os.path.realpath(root), allow_outside)
    return list(walk.files(str(root), "")), walk.problems


def unpack_command(name: str, folder: Path) -> str:
    """Return the command that unpacks an archive into a folder; empty if it is no archive.

    >>> unpack_command("a/b.ZIP", Path("d"))
    "unzip 'd/a/b.ZIP' -d 'd/a'"
    """
    command = next((UNPACK[end] for end in UNPACK if name.lower().endswith(end)), "")
    archive = folder / name
    return command.format(archive, archive.parent)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path, links followed, lies in a folder.

    >>> is_inside("/data/a.png", "/data"), is_inside("/data/../etc/passwd", "/data")
    (True, False)
    """
    real, home = os.path.realpath(path), os.path.realpath(folder)
    return real == home or real.startswith(home.rstrip(os.sep) + os.sep)


def read_file(place: str | Path) -> bytes:
    """Return the bytes of a file; ``CaseError`` if it is empty, too large or unreadable."""
    try:
        with open(place, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            check_bytes(size)
            return file.read(size)
    except OSError as error:
        raise CaseError("unreadable file", f"{error.strerror}: copy it again") from None


def check_bytes(size: int) -> None:
    """Raise ``CaseError`` for a file of no bytes, or of too many.

    >>> check_bytes(1000)
    """
    if size == 0:
        raise CaseError("empty file", "the file has 0 bytes: copy it again")
    if size > MAX_FILE_BYTES:
        raise CaseError("file too large", f"{size} bytes; at most {MAX_FILE_BYTES} are read")


@dataclass
class _Walk:
    root: str
    allow_outside: bool
    problems: list[Problem] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def files(self, folder: str, prefix: str) -> Iterator[FileEntry]:
        """Yield the files below a folder."""
        try:
            real = os.path.realpath(folder)
            with os.scandir(folder) as found:
                items = sorted(found, key=lambda item: item.name)
        except OSError as error:
            self._unreadable(prefix.rstrip("/") or ".", error)
            return
        if real in self.seen:  # by way of a link
            return
        self.seen.add(real)
        for item in items:
            if item.name.startswith(".") or item.name in _JUNK:
                continue
            name = prefix + _readable(item.name)
            try:
                if self._leads_outside(item, name):
                    continue
                if item.is_dir():
                    yield from self.files(item.path, f"{name}/")
                elif item.is_file():
                    yield FileEntry.of(name, item.path, item.stat())
            except OSError as error:  # a link to itself
                self._unreadable(name, error)

    def _leads_outside(self, item: os.DirEntry[str], name: str) -> bool:
        if self.allow_outside or not item.is_symlink() or is_inside(item.path, self.root):
            return False
        text = f"it leads to {printable(os.path.realpath(item.path))}: {OUTSIDE}"
        self.problems.append(Problem("error", "link outside the folder", name, text))
        return True

    def _unreadable(self, name: str, error: OSError) -> None:
        text = f"{error.strerror}: repair or remove it"
        self.problems.append(Problem("error", "unreadable file", name, text))


def _readable(name: str) -> str:
    """Return the name in composed Unicode (macOS stores accents apart), odd characters escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return escaped(unicodedata.normalize("NFC", text))
