"""Problems found in a set of files: collected while reading, reported together."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from feda3i.errors import DataError

Level = Literal["error", "note"]

UNUSED = ("mask missing", "image missing", "format not read", "archive not read")
"""Kinds of findings that mean: this file is in no case. ``unused="allow"`` makes them notes."""


@dataclass(frozen=True, order=True)
class Problem:
    """One finding about one file or case."""

    level: Level  # "error": left out, or not fit for training; "note": mended, or worth knowing
    kind: str  # the same for all findings of this sort, such as "mask missing"
    name: str  # the file or case
    text: str  # what was expected, what was found


class CaseError(DataError):
    """One case cannot be read; ``kind`` is the heading it gets in the report."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text

    def problem(self, name: str) -> Problem:
        """Return the finding about this file or case."""
        return Problem("error", self.kind, name, self.text)


@contextlib.contextmanager
def reading(kind: str, advice: str = "copy the file again") -> Iterator[None]:
    """Turn any error of a decoder (of any type) into one about this case."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CaseError(kind, f"{text}: {advice}") from None


def errors_of(problems: Iterable[Problem]) -> list[Problem]:
    """Return the errors among the findings."""
    return [problem for problem in problems if problem.level == "error"]


def report_lines(problems: Sequence[Problem], show: int = 3) -> list[str]:
    """Return one line per kind of finding, with the first few names."""
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for problem in sorted(problems):
        kinds[problem.level, problem.kind].append(problem.name)
    lines = []
    for (level, kind), names in kinds.items():
        more = ", ..." if len(names) > show else ""
        lines.append(f"{level:5}  {kind}: {len(names)} ({', '.join(names[:show])}{more})")
    return lines


def raise_errors(problems: Sequence[Problem], where: Path, files: Sequence[str] = ()) -> None:
    """Raise one ``DataError`` that names every kind of error, if there is any.

    ``files`` are lines that say what became of all files.
    """
    errors = errors_of(problems)
    if not errors:
        return
    first = min(errors)
    advice = f"'feda3i check {where}' names them all"
    if all(error.kind in UNUSED for error in errors):
        advice += "; data.unused=allow (--allow-unused) leaves them out"
    head = f"{where}: {len(errors)} files or cases cannot be used"
    lines = "\n  ".join([head, *report_lines(errors), *files])
    raise DataError(f"{lines}\nfirst: {first.name}: {first.text}\n{advice}")
