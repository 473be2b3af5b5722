"""The survey plane: one dot per site, the two groups, how right they are where that is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.quality.rating import Part, Rating
from feda3i.report import html
from feda3i.report.compare import Group, part, seed_by_seed
from feda3i.report.html import Column, Html, Outline, Point, Section, Shape
from feda3i.report.run_facts import RunFacts

SIGNS: dict[str, tuple[Shape, int, str]] = {
    "larger": ("up", 0, "draws larger"),
    "smaller": ("down", 1, "draws smaller"),
    "all": ("circle", 6, "one group of all"),
    "unrated": ("cross", 6, "not rated"),
}
SQUEEZED = 12.0
"""Times the median of all sites beyond which the axes are logarithmic."""
DEVIATIONS = 2.0
"""Radius of the ellipses: a Gaussian in two dimensions has 86 % of its mass within two."""
MOST_NAMES = 16
"""Sites up to which their names stand in the plane."""


def survey_section(groups: Sequence[Group]) -> Section | None:
    """Return the planes of all surveyed runs; nothing if there was no survey."""
    body = [
        seed_by_seed(group, surveyed, _planes)
        for group in groups
        if (surveyed := [run for run in group.counted if run.ratings])
    ]
    if not body:
        return None
    return Section(
        "survey",
        "Who draws how",
        html.join(body),
        "After the warm-up the server asks each site two numbers per class: how hard the model "
        "finds its masks just inside their contour (high: the site draws too large) and just "
        "outside (high: it draws too small). No mask leaves a site.",
        "Survey",
    )


def _planes(run: RunFacts) -> Html:
    number, rating = run.ratings[-1]
    drawn = []
    for one in rating.parts:
        several = len(rating.parts) > 1
        which = f"class {one.class_number}, {one.statistic}: " if several else ""
        about = f"{which}survey in round {number} of {len(rating.sites)} sites"
        drawn.append(
            part("pair", [_plane(rating, one, run.mu, about), _strength(rating, one, run.mu)])
        )
    return html.join(drawn)


def _plane(rating: Rating, found: Part, mu: Mapping[str, float], about: str) -> Html:
    known = np.flatnonzero((np.isfinite(found.q) & (found.q > 0)).all(axis=1))
    top = max((abs(value) for value in mu.values()), default=0.0)
    counts: Counter[str] = Counter(found.grouping.labels)
    shown = [(label, counts[label]) for label in SIGNS if counts[label]]
    about = f"{about}: " + ", ".join(
        f"{count} {SIGNS[label][2].replace('draws', 'drawing')}" for label, count in shown
    )
    is_log = _is_wide(found.q[known])
    names = [rating.sites[k] for k in known]
    chart = html.plane(
        "The survey plane",
        about,
        [_point(rating, found, int(k), mu, top) for k in known],
        x_label="loss just inside the drawn contour",
        y_label="loss just outside the drawn contour",
        is_log=is_log,
        has_diagonal=True,
        outlines=[
            e for label in ("larger", "smaller") if (e := _ellipse(found, label)) is not None
        ],
        corners=("draws too small", "draws too large"),
        names=names if len(names) <= MOST_NAMES else (),
    )
    signs = [
        (f"{SIGNS[label][2]} ({count})", html.dot_key(*SIGNS[label][:2])) for label, count in shown
    ]
    plot = part("survey", chart, signs, top if mu else None)
    bent = ", bent by the logarithmic axes" if is_log else ""
    caption = (
        f"{about[0].upper()}{about[1:]}. {_right(rating, found, mu)}Ellipses hold two standard "
        f"deviations of a group{bent}. How the groups came about: {found.grouping.reason}."
    )
    return html.figure(plot, caption, _table(rating, found, mu))


def _sign(label: str) -> tuple[Shape, int, str]:
    return SIGNS.get(label, SIGNS["unrated"])


def _is_wide(q: NDArray[np.float64]) -> bool:
    """Return whether a few extreme sites would squeeze all others into a corner."""
    return bool(len(q)) and bool((q.max(axis=0) > SQUEEZED * np.median(q, axis=0)).any())


def _point(rating: Rating, found: Part, k: int, mu: Mapping[str, float], top: float) -> Point:
    site, label = rating.sites[k], found.grouping.labels[k]
    shape, series, words = _sign(label)
    q = found.q[k]
    tip = f"{site}: {words}; inside {q[0]:.3f}, outside {q[1]:.3f}"
    if found.offset is not None and np.isfinite(found.offset[k]).all():
        tip += f"; {found.offset[k][0]:+.1f} ± {found.offset[k][1]:.1f} px from the model"
    fill = ""
    if site in mu:
        tip += f"; true mu {mu[site]:+.1f} px"
        fill = html.diverging(mu[site], top)
    return Point(float(q[0]), float(q[1]), tip, shape, series, fill, site)


def _ellipse(found: Part, label: str) -> Outline | None:
    """Return the ellipse of a group, each site counted by how likely it belongs there."""
    posterior = np.asarray(found.grouping.posterior, float)
    inside = np.array([one == label for one in found.grouping.labels])
    if np.isfinite(posterior).any():
        weight = np.nan_to_num(posterior if label == "larger" else 1 - posterior)
    else:
        weight = inside.astype(float)
    weight = np.where(np.isfinite(found.q).all(axis=1), weight, 0.0)
    if inside.sum() < 3 or weight.sum() < 2.5:
        return None  # two points make a line, not an ellipse
    q = np.nan_to_num(found.q)
    centre = weight @ q / weight.sum()
    covariance = (weight[:, None] * (q - centre)).T @ (q - centre) / weight.sum()
    values, axes = np.linalg.eigh(covariance)
    turn = np.linspace(0, 2 * math.pi, 181)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    ring = centre[:, None] + axes @ (DEVIATIONS * np.sqrt(np.maximum(values, 0))[:, None] * circle)
    return Outline([(float(a), float(b)) for a, b in ring.T], SIGNS[label][1])


def _right(rating: Rating, found: Part, mu: Mapping[str, float]) -> str:
    pairs = [
        (label == "larger", mu[site] > 0)
        for site, label in zip(rating.sites, found.grouping.labels, strict=True)
        if site in mu and label in ("larger", "smaller")
    ]
    if not pairs:
        return ""
    return f"The group is right for {sum(a == b for a, b in pairs)} of {len(pairs)} sites. "


def _table(rating: Rating, found: Part, mu: Mapping[str, float]) -> Html:
    columns = [
        Column("site"),
        Column("group"),
        Column("inside", "number"),
        Column("outside", "number"),
        Column("strength", "number", hint="how far off within its group"),
    ]
    if found.offset is not None:
        columns += [Column("offset, px", "number", 2), Column("± error", "number", 2)]
    columns += [Column("true mu, px", "number", 2)] if mu else []
    rows: list[list[object]] = []
    for k, site in enumerate(rating.sites):
        label = found.grouping.labels[k]
        row: list[object] = [html.name(site), _sign(label)[2]]
        row += [float(found.q[k][0]), float(found.q[k][1]), float(found.grouping.strength[k])]
        if found.offset is not None:
            row += [float(v) for v in found.offset[k]]
        rows.append([*row, mu.get(site)] if mu else row)
    return html.table("The survey by site", columns, rows, sites=rating.sites)


def _strength(rating: Rating, found: Part, mu: Mapping[str, float]) -> Html:
    """Return the noise strength against the true offset, where that is known."""
    strength = found.grouping.strength
    known = [k for k, site in enumerate(rating.sites) if site in mu and math.isfinite(strength[k])]
    if len(known) < 2:
        return Html("")
    sites = [rating.sites[k] for k in known]
    pairs = [(abs(mu[site]), float(strength[k])) for site, k in zip(sites, known, strict=True)]
    points = []
    for k, site, (x, y) in zip(known, sites, pairs, strict=True):
        tip = f"{site}: strength {y:.3f}, true |mu| {x:.1f} px"
        points.append(Point(x, y, tip, *_sign(found.grouping.labels[k])[:2], site=site))
    is_offset = found.grouping.rule == "balance"
    unit = "pixels from the middle" if is_offset else "difference of the two losses"
    about = (
        f"Noise strength ({unit}) that the survey finds at each of {len(known)} sites, against the "
        f"truth of the simulation. Rank correlation within a group: "
        f"{_ranks([found.grouping.labels[k] for k in known], pairs)}"
    )
    chart = html.plane(
        "Noise strength against the true offset",
        about,
        points,
        x_label="true |mu| of the annotator, px",
        y_label="noise strength",
    )
    columns = [Column("site"), Column("true |mu|, px", "number", 2), Column("strength", "number")]
    rows = [[html.name(site), *pair] for site, pair in zip(sites, pairs, strict=True)]
    table = html.table("Strength and truth", columns, rows, sites=sites)
    return html.figure(chart, f"{about}.", table)


def _ranks(labels: Sequence[str], pairs: Sequence[tuple[float, float]]) -> str:
    """Return the rank correlation of truth and strength in each group; they compare there alone."""
    from scipy.stats import spearmanr

    words = []
    for label in dict.fromkeys(labels):
        here = np.array([p for p, one in zip(pairs, labels, strict=True) if one == label])
        varied = (np.ptp(here, axis=0) > 0).all()
        rank = float(spearmanr(*here.T).statistic) if varied else math.nan
        words.append(f"{html.number(rank, 2)} ({_sign(label)[2]})")
    return ", ".join(words)
