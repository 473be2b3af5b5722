"""The survey plane: how every site draws, by its loss just inside and just outside contours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.report.canvas import BLUE, GREY, ORANGE, Target, pyplot, save, short

Points = NDArray[np.float64]

MARKERS = {
    "larger": ("^", ORANGE),
    "smaller": ("v", BLUE),
    "all": ("o", GREY),
    "unrated": ("X", GREY),
}
NAMES = {"all": "one group of all", "unrated": "not rated"}


def draw_survey(survey: Mapping[str, Any], path: Target, mu: Mapping[str, float] | None) -> None:
    """Draw one plane per class and statistic, with the names of the sites.

    Shape and outline are the group that the survey put a site into; the filling is the true mu of
    the annotator if it is known, and the group's colour otherwise.
    """
    parts = survey["parts"]
    figure, grid = pyplot().subplots(
        1, len(parts), figsize=(5.8 * len(parts), 5.2), layout="constrained", squeeze=False
    )
    for axes, part in zip(grid[0], parts, strict=True):
        shown = _draw_part(axes, part, survey["sites"], mu)
        if len(parts) > 1:
            axes.set_title(f"class {part['class_number']}, {part['statistic']}", fontsize=9)
    if mu is not None and shown is not None:
        figure.colorbar(
            shown, ax=grid[0].tolist(), label="true mu of the annotator (px)", shrink=0.8
        )
    # Names are placed around what else there is, so the layout has to be final before.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes, part in zip(grid[0], parts, strict=True):
        left = _write_names(axes, _q(part), survey["sites"])
        if left:
            look = {"transform": axes.transAxes, "fontsize": 7, "color": GREY, "ha": "right"}
            axes.text(0.99, 0.01, f"{left} more without room for a name", **look)
    save(figure, path)


def _q(part: Mapping[str, Any]) -> Points:
    rows = [[np.nan if v is None else v for v in row] for row in part["q"]]
    return np.array(rows, dtype=float).reshape(-1, 2)


def _draw_part(
    axes: Any, part: Mapping[str, Any], sites: Sequence[str], mu: Mapping[str, float] | None
) -> Any:
    """Draw the points of one class and statistic; return the ones that carry a colour scale."""
    q, labels = _q(part), part["grouping"]["labels"]
    _draw_frame(axes, q[np.isfinite(q)])
    largest = max((abs(value) for value in (mu or {}).values()), default=1.0) or 1.0
    shown = None
    for label in (name for name in MARKERS if name in labels):
        here = [i for i, found in enumerate(labels) if found == label]
        marker, colour = MARKERS[label]
        fill: dict[str, Any] = {"color": colour}
        if mu is not None:
            fill = {"c": [mu[sites[i]] for i in here], "cmap": "coolwarm"}
            fill |= {"vmin": -largest, "vmax": largest}
        shown = axes.scatter(
            *(q[here, 0], q[here, 1]),
            **fill,
            marker=marker,
            s=52,
            edgecolors=colour,
            linewidths=1.3,
            label=_legend(label, [sites[i] for i in here]),
        )
    axes.legend(
        title="group found by the survey",
        title_fontsize=8,
        fontsize=8,
        loc="upper right",
        framealpha=1,
    )
    return shown


def _legend(label: str, sites: Sequence[str]) -> str:
    text = f"{NAMES.get(label, f'draws {label}')} ({len(sites)})"
    if label != "unrated":
        return text
    # They have no place in the plane, so their names stand here.
    return "\n".join([text, *map(short, sites[:4]), *(["..."] if len(sites) > 4 else [])])


def _draw_frame(axes: Any, values: Points) -> None:
    """Draw axes, the diagonal and what it means."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    # Logarithmic: q has no upper bound, and a few extreme sites would squeeze all others.
    values = values[values > 0]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.1, 1.0)
    room = max(1.35, (high / low) ** 0.15)
    low, high = low / room, high * room
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        # A log scale labels its minor ticks too; within one decade they run into each other.
        between = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
        is_wide = high / low > 8
        axis.set_major_locator(LogLocator(subs=between) if is_wide else MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_tick_params(labelsize=8)
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.9, linestyle="--")
    words = {"transform": axes.transAxes, "fontsize": 8, "color": GREY, "va": "bottom"}
    along = {**words, "rotation": 45, "rotation_mode": "anchor", "va": "top"}
    axes.text(0.04, 0.03, "q1 = q2: errs to neither side", **along)
    axes.text(0.02, 0.95, "draws too small", style="italic", **words)
    axes.text(0.98, 0.05, "draws too large", ha="right", style="italic", **words)
    axes.set_xlabel("q1: loss just inside the drawn contour (high: draws too large)", fontsize=8)
    axes.set_ylabel("q2: loss just outside the drawn contour (high: draws too small)", fontsize=8)


def _write_names(axes: Any, q: Points, sites: Sequence[str]) -> int:
    """Write names where there is room, unusual sites first; return how many did not fit."""
    figure = axes.figure
    renderer = figure.canvas.get_renderer()
    finite = np.flatnonzero(np.isfinite(q).all(axis=1) & (q > 0).all(axis=1))
    if not len(finite):
        return 0
    places = axes.transData.transform(q[finite])
    unusual = np.linalg.norm(np.log(q[finite]) - np.median(np.log(q[finite]), axis=0), axis=1)
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    taken += [text.get_window_extent(renderer).extents for text in (*axes.texts, axes.get_legend())]
    frame = axes.get_window_extent(renderer).extents
    left = 0
    for k in np.argsort(-unusual, kind="stable"):
        if not _place(axes, renderer, short(sites[finite[k]]), q[finite[k]], taken, frame):
            left += 1
    return left


def _place(
    axes: Any, renderer: Any, name: str, point: Points, taken: list[Any], frame: Any
) -> bool:
    """Write a name near its point, farther away with a line, or not at all if there is no room."""
    from matplotlib.text import Text

    for reach in (7, 14, 22, 32, 44, 60):
        for angle in np.arange(0, 2 * np.pi, np.pi / 4):
            dx, dy = reach * np.cos(angle), reach * np.sin(angle)
            text = axes.annotate(
                name,
                point,
                xytext=(dx, dy),
                textcoords="offset points",
                ha="left" if dx > 1 else "right" if dx < -1 else "center",
                va="bottom" if dy > 1 else "top" if dy < -1 else "center",
                fontsize=7,
                arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkB": 4}
                if reach > 10
                else None,
            )
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer).extents  # without its line to the point
            is_inside = (box[:2] >= frame[:2]).all() and (box[2:] <= frame[2:]).all()
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                return True
            text.remove()
    return False


def _overlap(a: Any, b: Any) -> bool:
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])
