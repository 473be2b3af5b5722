"""A picture of how far each site draws outside the border, before and after redrawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from feda3i.log.events import Event
from feda3i.report.canvas import BLUE, GREY, ORANGE, Target, pyplot, save, short


def draw_offsets(
    events: Sequence[Event], path: Target, mu: Mapping[str, float] | None, unit: str = "px"
) -> None:
    """Draw each site's offset with two standard errors, and where its contours were moved to.

    Round events have ``offsets`` by site and class (offset, standard error, cases) and ``moved`` by
    site and class, all in pixels, of which
    ``unit`` says what kind they are; ``mu`` are the true offsets, if they are known.
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
