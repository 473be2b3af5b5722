"""Is there enough memory? Asked in advance, because the system would kill the process later."""

from contextlib import suppress
from pathlib import Path

from feda3i.errors import RecipeError


def available() -> int:
    """Return how many bytes this machine, or the container around us, can give."""
    found = [2**62]
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # no such limit, or "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text("utf-8")))
    return min(found)


def check_fits(what: str, size: float, advice: str) -> None:
    """Raise ``RecipeError`` if something needs more bytes than there are.

    >>> check_fits("the cases", 2.0**70, "use fewer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    feda3i.errors.RecipeError: ... use fewer
    """
    free = available()
    if size > free:
        found = f"{size / 2**30:,.1f} GiB needed and {free / 2**30:,.1f} GiB free"
        raise RecipeError(f"{what}: expected to fit into memory, found {found}; {advice}")
