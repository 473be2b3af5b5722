"""List and read the files of a folder; links that lead outside it are refused."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from feda3i.errors import escaped, printable
from feda3i.reading.problems import CaseError, Problem

UNPACK = {".zip": "unzip '{}' -d '{}'"} | dict.fromkeys(
    (".tar.gz", ".tar.bz2", ".tar.xz", ".tar", ".tgz"), "tar -xf '{}' -C '{}'"
)
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
    files: list[FileEntry] = []
    problems: list[Problem] = []
    seen: set[str] = set()

    def is_wanted(path: str) -> bool:
        name = os.path.basename(path)
        if name.startswith(".") or name in _JUNK:
            return False
        if allow_outside or not os.path.islink(path) or is_inside(path, str(root)):
            return True
        text = f"it leads to {printable(os.path.realpath(path))}: {OUTSIDE}"
        problems.append(Problem("error", "link outside the folder", _name(path, root), text))
        return False

    def unreadable(error: OSError) -> None:
        name, text = _name(error.filename, root), f"{error.strerror}: repair or remove it"
        problems.append(Problem("error", "unreadable file", name, text))

    for folder, below, names in os.walk(root, onerror=unreadable, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # by way of a link
            below.clear()
            continue
        seen.add(real)
        below[:] = [name for name in sorted(below) if is_wanted(os.path.join(folder, name))]
        for path in (os.path.join(folder, name) for name in names):
            if not is_wanted(path):
                continue
            try:
                info = os.stat(path)
            except OSError as error:  # a link to itself
                unreadable(error)
                continue
            if stat.S_ISREG(info.st_mode):
                files.append(FileEntry.of(_name(path, root), path, info))
    return sorted(files, key=lambda file: file.name), problems


def unpack_command(name: str, folder: Path) -> str:
    """Return the command that unpacks an archive into a folder; empty if it is no archive.

    >>> unpack_command("a/b.ZIP", Path("d"))
    "unzip 'd/a/b.ZIP' -d 'd/a'"
    """
    command = next((UNPACK[end] for end in UNPACK if name.lower().endswith(end)), "")
    archive = folder / name
    return command.format(archive, archive.parent)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path, links followed, lies in a folder."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


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
    """Raise ``CaseError`` for a file of no bytes, or of too many."""
    if size == 0:
        raise CaseError("empty file", "the file has 0 bytes: copy it again")
    if size > MAX_FILE_BYTES:
        raise CaseError("file too large", f"{size} bytes; at most {MAX_FILE_BYTES} are read")


def _name(path: str, root: Path) -> str:
    """Return the name in composed Unicode (macOS stores accents apart), odd characters escaped."""
    text = os.fsencode(os.path.relpath(path, root)).decode("utf-8", "backslashreplace")
    return escaped(unicodedata.normalize("NFC", text.replace(os.sep, "/")))
