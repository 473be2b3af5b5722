"""Who may write in a run folder: one process, if the folder holds plain files only."""

import contextlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from feda3i.errors import RunError

NAME = ".feda3i.lock"


def hold(folder: Path) -> BinaryIO:
    """Return the folder's lock file, held by this process until it is closed, however it ends."""
    path = folder / NAME
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = open(os.open(path, flags, 0o600), "r+b")  # noqa: SIM115
    try:
        with contextlib.suppress(ImportError):  # no such locks on this system
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_current = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        is_current = False
    if not is_current:  # held by another process, or just removed by it
        file.close()
        raise RunError(f"another process is working on '{folder}'; wait for it") from None
    return file


def is_held(folder: Path) -> bool:
    """Return whether a process works on this folder now."""
    try:
        if (folder / NAME).is_file():
            hold(folder).close()
    except RunError:
        return True
    return False


def check_plain_files(folder: Path) -> None:
    """Raise ``RunError`` for a link, which leads elsewhere, or a pipe, which waits for ever."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # the run that is under way removed it
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise RunError(
                    f"expected plain files, found a link, a pipe or a device: '{path}'; take it "
                    f"away, or put the file there"
                )
