"""A figure of what C(mu, sigma) does: contours over images, and the bias along the contour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.files import write_figure
from feda3i.geometry import Floats
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.model import SIDE, Annotator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Image = NDArray[np.uint8]

# The six models of the paper's figure.
PAPER_MODELS = ((-5.0, 1.0), (-7.0, 2.0), (-10.0, 2.0), (5.0, 2.5), (10.0, 4.0), (15.0, 5.0))
HIGHEST = 24  # bias that is drawn, px
CLEAN, NOISY = "#1f5fd0", "#d62718"


def draw_gallery(path: Path, seed: int) -> None:
    """Write the figure: a row per case, a column per model, below it the bias of the first case."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from feda3i.synthetic.skin import skin_case
    from feda3i.synthetic.ultrasound import breast_case

    skin = skin_case(seeding.rng(seed, "gallery", "skin"), SIDE)
    breast = breast_case(seeding.rng(seed, "gallery", "breast"), SIDE, "scanner-a")
    columns = len(PAPER_MODELS)
    figure = Figure(figsize=(1.9 * columns, 1.72 * 2 + 1.75), layout="constrained")
    axes = figure.subplots(3, columns, height_ratios=[1.0, 1.0, 0.62])
    for column, (mu, sigma) in enumerate(PAPER_MODELS):
        axes[0][column].set_title(f"C({mu:g}, {sigma:g})", fontsize=11)
        model = ContourEvolution.for_annotator(Annotator(mu, sigma))
        for row, (image, mask) in enumerate((skin, breast)):
            draws = seeding.rng(seed, "gallery", row, f"{mu:g} {sigma:g}")
            noisy, biases = model.evolve(mask, draws)
            _show(axes[row][column], image, mask, noisy)
            if row == 0:
                _show_bias(axes[-1][column], biases[0], mu, column == 0)
    named = ((CLEAN, "clean contour"), (NOISY, "noisy contour"))
    handles = [Line2D([], [], color=colour, label=name) for colour, name in named]
    style: Any = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": 10}
    figure.legend(handles=handles, **style)
    write_figure(path, figure, dpi=110)


def _show(axis: Axes, image: Image, clean: Image, noisy: Image) -> None:
    axis.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="bilinear")
    for mask, colour in ((clean, CLEAN), (noisy, NOISY)):
        axis.contour(mask != 0, levels=[0.5], colors=[colour], linewidths=1.3)
    axis.set_axis_off()


def _show_bias(axis: Axes, bias: Floats, mu: float, is_first: bool) -> None:
    axis.axhline(0, color="0.6", linewidth=0.8)
    axis.axhline(mu, color="0.35", linewidth=0.9, linestyle="--")
    axis.plot(np.linspace(0, 1, len(bias)), bias, color=NOISY, linewidth=1.3)
    axis.set_ylim(-HIGHEST, HIGHEST)
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.set_xlabel("along the contour", fontsize=8)
    axis.tick_params(labelsize=8, labelleft=is_first)
    if is_first:
        axis.set_ylabel("bias (px)", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
