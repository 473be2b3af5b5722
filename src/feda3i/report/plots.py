"""Pictures of runs: curves, the survey plane, weights by stage, masks side by side.

Every function draws from events or arrays and writes one PNG; nothing is shown on a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.codec import write_file
from feda3i.report.events import Event

BLUE, RED, GREY, GREEN = "#1f5fbf", "#c8322b", "#7a7a7a", "#2c8a4b"
COLOURS = (RED, BLUE, GREEN, "#b8860b", "#6a4c93", GREY)


def draw_curves(runs: Mapping[str, Sequence[Event]], path: Path, score: str = "dice") -> None:
    """Draw a test score over the rounds, one line per run."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for (name, events), colour in zip(runs.items(), _colours(len(runs)), strict=True):
        points = [(e["round"], e[score]) for e in events if e.get(score) is not None]
        axes.plot(*zip(*points, strict=True), label=name, color=colour, marker=".", linewidth=1.6)
    for events in runs.values():
        for event in events:
            if event.get("survey"):
                axes.axvline(event["round"] - 0.5, color=GREY, linewidth=0.8, linestyle=":")
                axes.annotate(
                    "survey",
                    (event["round"] - 0.5, axes.get_ylim()[0]),
                    textcoords="offset points",
                    xytext=(3, 4),
                    color=GREY,
                    fontsize=8,
                )
    axes.set(xlabel="round", ylabel=f"test {score.capitalize()}, mean over cases")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    _save(figure, path)


def draw_survey(survey: Mapping[str, Any], path: Path, mu: Mapping[str, float] | None) -> None:
    """Draw the plane of inner and outer difficulty with the two groups; colour is the true mu."""
    plt = _pyplot()
    part = survey["parts"][0]
    q = np.array([[np.nan if v is None else v for v in row] for row in part["q"]], dtype=float)
    labels = part["grouping"]["labels"]
    figure, axes = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
    # Logarithmic: q has no upper bound, and a few extreme sites would squeeze all others.
    low, high = 0.8 * float(np.nanmin(q)), 1.25 * float(np.nanmax(q))
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=":")
    largest = max((abs(value) for value in (mu or {}).values()), default=1.0) or 1.0
    marker = {"larger": "^", "smaller": "v", "all": "o", "unrated": "x"}
    shown = None
    for label in sorted(set(labels)):
        here = [i for i, found in enumerate(labels) if found == label]
        colours: Any = BLUE
        if mu is not None:
            colours = [mu[survey["sites"][i]] for i in here]
        shown = axes.scatter(
            *(q[here, 0], q[here, 1]),
            c=colours,
            cmap="coolwarm",
            vmin=-largest,
            vmax=largest,
            marker=marker.get(label, "o"),
            s=46,
            edgecolors="black",
            linewidths=0.5,
            label=f"group '{label}' ({len(here)})",
        )
    if mu is not None and shown is not None:
        figure.colorbar(shown, ax=axes, label="true mu of the annotator (px)", shrink=0.85)
    axes.set(
        xlabel="inner loss q1 (high: draws too large)",
        ylabel="outer loss q2 (high: draws too small)",
        xscale="log",
        yscale="log",
        xlim=(low, high),
        ylim=(low, high),
    )
    axes.legend(frameon=False, loc="lower left", fontsize=8)
    _save(figure, path)


def draw_weights(
    weights: Mapping[str, Any],
    stages: Sequence[str],
    path: Path,
    mu: Mapping[str, float] | None,
) -> None:
    """Draw the weight of every site in every stage; sites in order of the true mu if known."""
    plt = _pyplot()
    from matplotlib.colors import PowerNorm

    sites = sorted(weights, key=(lambda s: mu[s]) if mu is not None else None)
    table = np.array([np.atleast_1d(weights[site]) for site in sites], dtype=float)
    if table.shape[1] == 1:
        table = np.repeat(table, len(stages), axis=1)
    height = min(2.0 + 0.16 * len(sites), 9.0)
    figure, axes = plt.subplots(figsize=(6.0, height), layout="constrained")
    # Square-root colours: one site may weigh twenty times the mean, and the rest must still show.
    scale = PowerNorm(0.5, vmin=0, vmax=max(float(len(sites) * table.max()), 1.0))
    shown = axes.imshow(len(sites) * table, aspect="auto", cmap="Blues", norm=scale)
    axes.set_xticks(range(len(stages)), stages, rotation=45, ha="right", fontsize=8)
    names = [s if mu is None else f"{s}  mu {mu[s]:+.1f}" for s in sites]
    axes.set_yticks(range(len(sites)), names, fontsize=7)
    axes.set_xlabel("stage, from input to output")
    figure.colorbar(shown, ax=axes, label="weight x number of sites", shrink=0.8)
    _save(figure, path)


def draw_cases(
    images: NDArray[np.uint8],
    contours: Mapping[str, NDArray[np.uint8]],
    path: Path,
    titles: Sequence[str] = (),
) -> None:
    """Draw cases in a row with the contours of several masks in their colours.

    ``images`` is ``(case, row, column, channel)``, each mask array ``(case, row, column)``.
    """
    plt = _pyplot()
    count = len(images)
    columns = min(count, 6)
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(2.1 * columns, 2.3 * rows + 0.6), layout="constrained"
    )
    palette = dict(zip(contours, (GREEN, RED, BLUE, "#b8860b"), strict=False))
    for i, axes in enumerate(np.atleast_1d(grid).flat):
        axes.axis("off")
        if i >= count:
            continue
        axes.imshow(images[i].squeeze(), cmap="gray", vmin=0, vmax=255)
        for name, masks in contours.items():
            if masks[i].any() and not masks[i].all():
                axes.contour(masks[i] > 0, [0.5], colors=palette[name], linewidths=1.3)
        if i < len(titles):
            axes.set_title(titles[i], fontsize=8)
    handles = [plt.Line2D([], [], color=colour, label=name) for name, colour in palette.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    _save(figure, path)


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    from io import BytesIO

    import matplotlib.pyplot as plt

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, buffer.getvalue())
