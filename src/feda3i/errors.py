"""The errors a user may meet: each says what was expected, what was found and what to do."""

import difflib
from collections.abc import Iterable
from typing import Any


class FedA3IError(Exception):
    """Base of all errors that the command line shows without a traceback (exit code 1)."""


class RecipeError(FedA3IError):
    """A recipe, option or command-line argument is wrong (exit code 2)."""


class DataError(FedA3IError):
    """Images, masks or folders are missing, unreadable or inconsistent."""


class WireError(FedA3IError):
    """A message between server and site holds something that was not declared or is malformed."""


class DivergedError(WireError):
    """A training went wrong: its loss or parameters are not finite, or far too large."""


class RunError(FedA3IError):
    """A run cannot go on or be resumed: bad run folder, lost sites, a loss that is not finite."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the nearest known name, or an empty string.

    >>> nearest("fedavgg", ["fedavg", "fedprox"])
    ", did you mean 'fedavg'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean '{close[0]}'?" if close else ""


def unknown(what: str, name: str, known: Iterable[str], hint: str = "") -> RecipeError:
    """Return the error about a name that nothing has.

    >>> str(unknown("partition", "idd", ["iid", "by-source"]))
    "unknown partition 'idd', did you mean 'iid'? Known: iid, by-source"
    """
    names = list(known)
    close = nearest(name, names) or nearest(name.lower().replace("_", "-"), names) or "."
    return RecipeError(f"unknown {what} '{name}'{close} Known: {', '.join(names)}{hint}")


def check_choice(what: str, value: Any, known: Iterable[str]) -> None:
    """Raise ``RecipeError`` unless a value is one of those known."""
    names = list(known)
    if value not in names:
        text = f"{what}: expected one of {', '.join(names)}, found {shown(value)}"
        raise RecipeError(text + nearest(str(value), names))


def check_option(owner: str, option: str, known: Iterable[str]) -> None:
    """Raise ``RecipeError`` unless something has an option of this name."""
    names = list(known)
    if option not in names:
        close = nearest(option, names) or "."
        raise RecipeError(f"{owner} has no option '{option}'{close} Known: {', '.join(names)}")


def summary(error: BaseException) -> str:
    """Return kind and text of an error in one line of bounded length.

    >>> summary(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else f"{text[:300]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any, length: int = 80) -> str:
    """Return a value as a message can show it, cut to a length.

    >>> shown("a" * 100, 6)
    "'aaaaa..."
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, nested too deep
        return f"a very large {type(value).__name__}"
    return text if len(text) <= length else f"{text[:length]}..."


def printable(text: Any, length: int = 1000) -> str:
    r"""Return text from outside as console, log and pages may show it: one line, nothing hidden.

    Control characters, marks that turn or hide letters and lone surrogates are written as escapes;
    runs of space are one space. What is not text is shown as Python shows it.

    >>> printable("it\x1b[31m broke\n here")
    'it\\x1b[31m broke here'
    """
    line = " ".join((text if isinstance(text, str) else shown(text))[: length + 1].split())
    safe = escaped(line)
    return safe if len(safe) <= length else f"{safe[:length]}..."


def escaped(text: str, kept: str = "") -> str:
    r"""Return text with everything that a terminal would obey, and not show, as escapes.

    >>> escaped("a\x1b[2J\u202eb\n", kept="\n")
    'a\\x1b[2J\\u202eb\n'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )
