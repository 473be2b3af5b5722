"""Pictures with pixels and of benches: colours, no screen, atomic writes, masks side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.files import write_figure
from feda3i.metrics import dice_both_empty_one

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


def draw_cases(
    images: NDArray[np.uint8],
    contours: Mapping[str, NDArray[np.uint8]],
    path: Target,
    titles: Sequence[str] = (),
    truth: str | None = None,
) -> None:
    """Draw cases ``(case, row, column, channel)`` with contours of masks ``(case, row, column)``.

    The Dice of all masks with those called ``truth``, if there are any, stands below each case.
    """
    from matplotlib.patheffects import withStroke

    plt = pyplot()
    # Contours of any colour stand out from images of any colour by a dark border.
    halo = [withStroke(linewidth=3, foreground="#000000b0")]
    count = len(images)
    columns = min(count, 6)
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(2.1 * columns, 2.45 * rows + 0.6), layout="constrained"
    )
    palette = dict(zip(contours, (GREEN, ORANGE, BLUE, YELLOW), strict=False))
    for i, axes in enumerate(np.atleast_1d(grid).flat):
        axes.axis("off")
        if i >= count:
            continue
        axes.imshow(images[i].squeeze(), cmap="gray", vmin=0, vmax=255)
        for name, masks in contours.items():
            if masks[i].any() and not masks[i].all():
                drawn = axes.contour(masks[i] > 0, [0.5], colors=palette[name], linewidths=1.3)
                drawn.set_path_effects(halo)
        if i < len(titles):
            axes.set_title(titles[i], fontsize=8)
        others = [name for name in contours if truth is not None and name != truth]
        for k, name in enumerate(others):
            score = _dice(contours[name][i], contours[str(truth)][i])
            place = ((k + 0.5) / len(others), -0.03)
            look = {"color": palette[name], "fontsize": 8, "ha": "center", "va": "top"}
            axes.text(*place, f"Dice {score:.2f}", transform=axes.transAxes, **look)
    handles = [plt.Line2D([], [], color=colour, label=name) for name, colour in palette.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, path)


def _dice(mask: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    """Return the mean Dice of the classes in either mask; 1 if there is nothing in both."""
    classes = [int(k) for k in np.union1d(mask, truth) if k]
    pairs = [(mask == k, truth == k) for k in classes] or [(mask > 0, truth > 0)]
    return float(np.mean([dice_both_empty_one(*pair) for pair in pairs]))
