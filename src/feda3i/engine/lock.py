"""Who may write in a run folder: made by us, held by one process, free of links and leftovers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from pathlib import Path

from feda3i.errors import RunError
from feda3i.files import PART
from feda3i.recipe.machine import FILE as LOCAL

NAME = ".lock"
MARK = b"A run of feda3i made this folder; the process that works on it holds this file.\n"
_START = {NAME, "state", "cache", "recipe.toml", LOCAL}
_TEMPORARY = re.compile(rf"\..+\.\d+\.tmp|{re.escape(PART)}\d+-.+|.+\.tmp\.npy")


class Lock:
    """Hold a folder for this process; the lock ends with the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            self._file = open(os.open(self._path, flags, 0o600), "r+b")  # noqa: SIM115
        except OSError as error:
            if not self._path.is_symlink():
                raise
            # In a folder from elsewhere a link would let us write to the file it points to.
            raise RunError(f"'{self._path}' is a link; remove it") from error
        try:
            self._take(folder)
        except BaseException:
            self._file.close()
            raise

    def _take(self, folder: Path) -> None:
        try:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # no such locks on this system
        except OSError:
            raise RunError(f"another process is working on '{folder}'; wait for it") from None
        if not self._is_current():
            raise RunError(f"another process has just removed '{folder}'; try again")

    def mark(self) -> None:
        """Write whose folder this is; a folder with it is ours to clear if its start dies."""
        self._file.seek(0)
        self._file.write(MARK)
        self._file.truncate()
        self._file.flush()

    def _is_current(self) -> bool:
        """Return whether the locked file still has its name: the last holder may have gone."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Delete the file, too; for a folder that is given up."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go."""
        self._file.close()


def is_free(folder: Path) -> bool:
    """Return whether a new run may be made here: nothing, or what a start that died left."""
    if not folder.exists():
        return True
    names = set(os.listdir(folder))
    if not names:
        return True
    if any(name not in _START and not _TEMPORARY.fullmatch(name) for name in names):
        return False
    mark = _mark(folder)
    return mark == MARK or (mark is not None and MARK.startswith(mark) and names == {NAME})


def _mark(folder: Path) -> bytes | None:
    """Return what the lock file says, or ``None`` if there is no such plain file."""
    path = folder / NAME
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with path.open("rb") as file:
            return file.read(len(MARK) + 1)
    except OSError:
        return None


def check_kinds(folder: Path) -> None:
    """Raise ``RunError`` for a pipe or a device in a run folder: reading it would wait for ever."""
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # a link to nothing waits for nobody
            mode = path.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RunError(
                    f"expected plain files in the run folder '{folder}', found a pipe or a "
                    f"device: '{path}'; take it away, or fetch the run again"
                )


def is_held(folder: Path) -> bool:
    """Return whether a process works on this folder now."""
    if not (folder / NAME).is_file():
        return False
    try:
        Lock(folder).close()
    except RunError:
        return True
    return False


def clear_start(folder: Path) -> None:
    """Remove what a start of a run left that never became one; the lock is held."""
    sweep(folder)
    for name in _START - {NAME}:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove temporary files; whoever holds the lock knows that their process is dead."""
    for path in list(folder.rglob("*")):
        if _TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):  # a folder of that name is not ours
                path.unlink()


def check_links(folder: Path) -> None:
    """Raise ``RunError`` if a link in the folder would make us write somewhere else."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RunError(
                f"'{path}' is a link to '{os.readlink(path)}'; a run folder holds none, and "
                f"nothing is written through one. Remove it, or put the file there"
            )
