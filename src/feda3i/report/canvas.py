"""What figures of benches share: colours, a backend without a screen, atomic writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feda3i.files import write_figure

# Okabe and Ito's colours: distinct for readers who do not tell red from green.
GREEN, ORANGE, BLUE, YELLOW, PINK, SKY = (
    *("#009e73", "#d55e00", "#0072b2", "#e69f00", "#cc79a7", "#56b4e9"),
)
GREY = "#6f6f6f"
COLOURS = (ORANGE, BLUE, GREEN, YELLOW, PINK, SKY, GREY)
Target = Path | Sequence[Path]
"""Where a picture goes: one file, or one in each of several formats."""


def pyplot() -> Any:
    """Return matplotlib's interface with a backend that needs no screen."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, target: Target) -> None:
    """Write a figure in the formats that the names of its files ask for, and free it."""
    for path in [target] if isinstance(target, Path) else target:
        write_figure(path, figure, dpi=130)
    pyplot().close(figure)


def colours(count: int) -> list[str]:
    """Return this many colours; the palette repeats if it has fewer."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
