"""Is there enough memory? Asked in advance, because the system would kill the process later."""

from __future__ import annotations

from pathlib import Path

from feda3i.errors import RecipeError

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available() -> int:
    """Return how many bytes this process can still take; very many if unknown."""
    found = [2**62]
    found += [size for size in (_field(Path("/proc/meminfo"), "MemAvailable:"), _left()) if size]
    for limit in _LIMITS:
        try:
            found.append(int(limit.read_text("utf-8")))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return min(found)


def check_fits(what: str, size: float, advice: str) -> None:
    """Raise ``RecipeError`` if something needs more bytes than there are.

    >>> check_fits("the cases", 2.0**70, "use fewer")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    feda3i.errors.RecipeError: ... use fewer
    """
    free = available()
    if size > free:
        raise RecipeError(
            f"{what}: expected to fit into memory, found {_text(size)} needed and {_text(free)} "
            f"free; {advice}"
        )


def _field(file: Path, name: str) -> int:
    """Return a field of a file of the kernel in bytes; 0 if it has none."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _left() -> int:
    """Return what a limit on this process leaves; 0 without a limit."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return 0
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return 0
    return max(1, limit - _field(Path("/proc/self/status"), "VmSize:"))


def _text(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"
