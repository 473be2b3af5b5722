"""What the command line says when something fails: one message and an exit code, no traceback.

An error of ours speaks for itself. Errors of the machine (disk, memory, permissions) become
sentences, an error inside a plug-in names its file and line, and anything else is a bug of ours:
the details go to a file that the user can send.
"""

import errno
import os
import platform
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, TextIO

from feda3i.errors import FedA3IError, RecipeError, escaped, summary


class Visible:
    """A stream on which names from outside hide, move and colour nothing.

    What draws on a terminal itself writes to ``raw``.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write text; escape sequences and marks that turn letters are shown as such."""
        return self.raw.write(escaped(text, kept="\n\t"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw_stderr() -> TextIO:
    """Return standard error for what draws on a terminal."""
    return getattr(sys.stderr, "raw", sys.stderr)


def message_of(error: BaseException) -> tuple[str, int]:
    """Return what to say about an error, and the exit code.

    >>> message_of(RecipeError("rounds: expected a number"))
    ('rounds: expected a number', 2)
    >>> message_of(OSError(13, "Permission denied", "/root/x"))
    ('Permission denied: /root/x', 1)
    """
    if isinstance(error, RecipeError):
        return str(error), 2
    if isinstance(error, FedA3IError):
        return str(error), 1
    if is_out_of_memory(error):
        return f"not enough memory ({summary(error)}); try smaller cases, batches or networks", 1
    place = plugin_place(error)
    if place:
        return f"the plug-in {place} failed: {summary(error)}; details: {write_details(error)}", 1
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        again = "predict: with --overwrite; after run: feda3i resume RUN_FOLDER"
        return f"the disk is full; free some space, then repeat the command ({again})", 1
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename is not None else ""
        return f"{error.strerror or summary(error)}{where}", 1
    details = f"The details are in {write_details(error)}; read them before you send them"
    report = "Please report it; CONTRIBUTING.md says where."
    return f"this is a bug in feda3i: {summary(error)}\n{report} {details}: they may name files", 1


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, which torch and OpenCV report as their own errors."""
    if isinstance(error, MemoryError):
        return True
    text = str(error)
    says_so = "allocate" in text and ("memory" in text or "bytes" in text)
    return says_so and type(error).__name__ in ("RuntimeError", "OutOfMemoryError", "error")


def plugin_place(error: BaseException) -> str:
    """Return file and line at which a plug-in failed; empty if none had a part in it."""
    from feda3i.registry import is_plugin

    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_plugin(str(frame.f_globals.get("__name__", ""))):
            place = f"{frame.f_code.co_filename} (line {line}, {frame.f_code.co_name})"
    return place


def write_details(error: BaseException) -> Path:
    """Write versions, command and traceback to a new file that only the user can read."""
    from feda3i import __version__

    about = f"feda3i {__version__}, Python {platform.python_version()}, {platform.platform()}"
    trace = "".join(traceback.format_exception(error))
    handle, name = tempfile.mkstemp(prefix="feda3i-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{about}\ncommand: {sys.argv}\n\n{trace}")
    return Path(name)
