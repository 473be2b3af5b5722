"""A figure of what C(mu, sigma) does: contours over images, and the bias along the contour."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.errors import DataError
from feda3i.files import write_figure
from feda3i.geometry import Floats
from feda3i.noise.contour import ContourEvolution
from feda3i.noise.model import SIDE, Annotator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Image = NDArray[np.uint8]

# The six models of the paper's figure.
PAPER_MODELS = ((-5.0, 1.0), (-7.0, 2.0), (-10.0, 2.0), (5.0, 2.5), (10.0, 4.0), (15.0, 5.0))
CLEAN, NOISY = "#1f5fd0", "#d62718"


def built_in_cases(seed: int) -> list[tuple[Image, Image]]:
    """Return one synthetic skin lesion and one breast mass, image and mask, at 256 pixels."""
    from feda3i.synthetic.skin import skin_case
    from feda3i.synthetic.ultrasound import breast_case

    skin = skin_case(seeding.rng(seed, "gallery", "skin"), SIDE)
    breast = breast_case(seeding.rng(seed, "gallery", "breast"), SIDE, "scanner-a")
    return [skin, breast]


def draw_gallery(path: Path, cases: Sequence[tuple[Image, Image]], seed: int, mode: str) -> None:
    """Write the figure: a row per case, a column per model, below it the bias of the first case.

    A case is an image and its mask. The paper's mu and sigma are meant at 256 pixels and scale with
    the image's longer side.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = len(PAPER_MODELS)
    size = (1.9 * columns, 1.72 * len(cases) + 1.75)
    figure = Figure(figsize=size, layout="constrained")
    heights = [1.0] * len(cases) + [0.62]
    axes = figure.subplots(len(cases) + 1, columns, height_ratios=heights, squeeze=False)
    drawn = [
        [_evolve(image, mask, mu, sigma, mode, seed, k) for mu, sigma in PAPER_MODELS]
        for k, (image, mask) in enumerate(cases)
    ]
    highest = max(float(np.abs(bias).max()) for _, bias in drawn[0]) * 1.15
    scale = max(cases[0][1].shape) / SIDE
    for column, (mu, sigma) in enumerate(PAPER_MODELS):
        for row, (image, mask) in enumerate(cases):
            _show(axes[row][column], image, mask, drawn[row][column][0])
        axes[0][column].set_title(f"C({mu:g}, {sigma:g})", fontsize=11)
        _show_bias(axes[-1][column], drawn[0][column][1], mu * scale, highest, column == 0)
    figure.legend(
        handles=[
            Line2D([], [], color=CLEAN, label="clean contour"),
            Line2D([], [], color=NOISY, label="noisy contour"),
        ],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=10,
    )
    write_figure(path, figure, dpi=110)


def _evolve(
    image: Image, mask: Image, mu: float, sigma: float, mode: str, seed: int, case: int
) -> tuple[Image, Floats]:
    """Return the noisy mask and the bias along its first contour."""
    if image.shape[:2] != mask.shape or not mask.any():
        raise DataError(
            "expected an image with a mask of its size and with foreground, found image "
            f"{image.shape}, mask {mask.shape} with {int(np.count_nonzero(mask))} pixels"
        )
    annotator = Annotator(mu, sigma).scaled(max(mask.shape) / SIDE)
    model = ContourEvolution.for_annotator(annotator, mode=mode)
    noisy, biases = model.evolve(mask, seeding.rng(seed, "gallery", case, f"{mu:g} {sigma:g}"))
    return noisy, biases[0]


def _show(axis: Axes, image: Image, clean: Image, noisy: Image) -> None:
    axis.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="bilinear")
    for mask, colour in ((clean, CLEAN), (noisy, NOISY)):
        axis.contour(mask != 0, levels=[0.5], colors=[colour], linewidths=1.3)
    axis.set_axis_off()


def _show_bias(axis: Axes, bias: Floats, mu: float, highest: float, is_first: bool) -> None:
    axis.axhline(0, color="0.6", linewidth=0.8)
    axis.axhline(mu, color="0.35", linewidth=0.9, linestyle="--")
    axis.plot(np.linspace(0, 1, len(bias)), bias, color=NOISY, linewidth=1.3)
    axis.set_ylim(-highest, highest)
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.set_xlabel("along the contour", fontsize=8)
    axis.tick_params(labelsize=8, labelleft=is_first)
    if is_first:
        axis.set_ylabel("bias (px)", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
