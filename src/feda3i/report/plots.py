"""Pictures of runs: curves, weights by stage, offsets, masks side by side.

Every function draws from events or arrays and writes files; nothing is shown on a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.engine.events import Event
from feda3i.metrics import dice_both_empty_one
from feda3i.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    YELLOW,
    Target,
    colours,
    pyplot,
    save,
    short,
)

MOST_ROWS = 200


def draw_curves(runs: Mapping[str, Sequence[Sequence[Event]]], path: Target) -> None:
    """Draw the test Dice over the rounds, one line per name.

    A name stands for the round events of runs that differ in their seed: the line is their mean,
    and the band reaches from the lowest to the highest.
    """
    figure, axes = pyplot().subplots(figsize=(6.4, 4.0), layout="constrained")
    surveys = set()
    for (name, seeds), colour in zip(runs.items(), colours(len(runs)), strict=True):
        rounds, values = _table(seeds)
        label = name if len(seeds) == 1 else f"{name} (mean of {len(seeds)} seeds)"
        style = {"color": colour, "marker": ".", "linewidth": 1.6}
        axes.plot(rounds, values.mean(axis=0), label=label, **style)
        if len(seeds) > 1:
            band = values.min(axis=0), values.max(axis=0)
            axes.fill_between(rounds, *band, color=colour, alpha=0.18, linewidth=0)
        surveys |= {e["round"] - 0.5 for events in seeds for e in events if e.get("survey")}
    for k, place in enumerate(sorted(surveys)):
        axes.axvline(place, color=GREY, linewidth=0.8, linestyle=":")
        if k == 0:  # one word for all: neighbouring lines would write over each other
            axes.annotate(
                *("survey" if len(surveys) == 1 else "surveys", (place, 0)),
                *((3, 4), ("data", "axes fraction"), "offset points"),
                **{"color": GREY, "fontsize": 8},
            )
    has_bands = any(len(seeds) > 1 for seeds in runs.values())
    axes.set(xlabel="round", ylabel="test Dice, mean over cases")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, title="band: lowest to highest seed" if has_bands else None)
    save(figure, path)


def _table(seeds: Sequence[Sequence[Event]]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the rounds that all seeds were scored in, and the Dice ``(seed, round)``."""
    found = [{e["round"]: e["dice"] for e in seed if e.get("dice") is not None} for seed in seeds]
    rounds = sorted(set.intersection(*[set(one) for one in found]))
    return rounds, np.array([[one[r] for r in rounds] for one in found], dtype=float)


def draw_weights(
    weights: Mapping[str, Any],
    stages: Sequence[str],
    path: Target,
    mu: Mapping[str, float] | None,
) -> None:
    """Draw the weight of every site in every stage; sites in order of the true mu if known."""
    from matplotlib.colors import PowerNorm

    sites = sorted(weights, key=(lambda s: mu[s]) if mu is not None else None)
    table = np.array([np.atleast_1d(weights[site]) for site in sites], dtype=float)
    if table.shape[1] == 1:
        table = np.repeat(table, len(stages), axis=1)
    height = 1.8 + 0.16 * min(len(sites), MOST_ROWS)
    figure, axes = pyplot().subplots(figsize=(6.0, height), layout="constrained")
    # Square-root colours: one site may weigh twenty times the mean, and the rest must still show.
    scale = PowerNorm(0.5, vmin=0, vmax=max(float(len(sites) * table.max()), 1.0))
    shown = axes.imshow(len(sites) * table, aspect="auto", cmap="Blues", norm=scale)
    axes.set_xticks(range(len(stages)), stages, rotation=45, ha="right", fontsize=8)
    names = [short(s) if mu is None else f"{short(s)}  mu {mu[s]:+.1f}" for s in sites]
    step = -(-len(sites) // MOST_ROWS)  # rows lower than a letter would write over each other
    axes.set_yticks(range(0, len(sites), step), names[::step], fontsize=7)
    axes.set_xlabel("stage, from input to output")
    figure.colorbar(shown, ax=axes, label="weight x number of sites", shrink=0.8)
    save(figure, path)


def draw_offsets(
    events: Sequence[Event], path: Target, mu: Mapping[str, float] | None, unit: str = "px"
) -> None:
    """Draw each site's offset with two standard errors, and where its contours were moved to.

    Round events have ``offsets`` by site and class (offset, standard error, cases) and ``moved`` by
    site and class, all in pixels, of which ``unit`` says what kind they are; ``mu`` are the true
    offsets, if they are known.
    """
    offsets, moved = gather(events)
    sites = sorted(offsets, key=lambda site: (mu or {}).get(site, offsets[site][0, 0]))
    classes = len(offsets[sites[0]])
    size = (5.6 * classes, 1.4 + 0.19 * len(sites))
    figure, grid = pyplot().subplots(
        1, classes, figsize=size, layout="constrained", squeeze=False, sharey=True
    )
    rows = np.arange(len(sites))
    for k, axes in enumerate(grid[0]):
        table = np.array([offsets[site][k] for site in sites])
        after = table[:, 0] + np.array([moved.get(site, [0.0] * classes)[k] for site in sites])
        known = table[:, 2] > 0
        axes.axvline(0, color=GREY, linewidth=0.8)
        bars = {"fmt": "o", "color": ORANGE, "markersize": 4, "label": "drawn, with two errors"}
        axes.errorbar(table[known, 0], rows[known], xerr=2 * table[known, 1], **bars)
        axes.plot(after[known], rows[known], "D", color=BLUE, markersize=4, label="trained on")
        if mu is not None:
            true = [mu[site] for site in sites]
            axes.plot(true, rows, "x", color=GREY, markersize=5, label="true offset")
        for row in rows[~known]:
            axes.annotate("cannot tell", (0, row), fontsize=7, va="center", ha="center")
        label = f"{unit} outside the border in the image"
        axes.set_xlabel(label + f", class {k + 1}" * (classes > 1))
        axes.set_yticks(rows, [short(site) for site in sites], fontsize=7)
        axes.grid(alpha=0.25)
    grid[0, 0].legend(frameon=False, fontsize=8)
    save(figure, path)


def gather(
    events: Sequence[Event],
) -> tuple[dict[str, np.ndarray], dict[str, list[float]]]:
    """Return the offsets ``(class, 3)`` and the moves of all sites, each by site."""
    offsets: dict[str, np.ndarray] = {}
    moved: dict[str, list[float]] = {}
    for event in events:
        offsets |= {site: np.array(rows) for site, rows in event.get("offsets", {}).items()}
        moved |= event.get("moved", {})
    return offsets, moved


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
    plt = pyplot()
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
                axes.contour(masks[i] > 0, [0.5], colors=palette[name], linewidths=1.3)
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
