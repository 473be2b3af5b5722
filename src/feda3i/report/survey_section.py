"""The survey plane: one dot per site, the two groups, how right they are where that is known."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from feda3i.quality.rating import Part, Rating
from feda3i.report import html
from feda3i.report.compare import Group, part, section, seed_by_seed
from feda3i.report.html import Html, Point, Section, Shape
from feda3i.report.runs import RunFacts

SIGNS: dict[str, tuple[Shape, int, str]] = {
    "larger": ("up", 0, "draws larger"),
    "smaller": ("down", 1, "draws smaller"),
    "all": ("circle", 6, "one group of all"),
    "unrated": ("cross", 6, "not rated"),
}
SQUEEZED = 12.0  # times the median of all sites beyond which the axes are logarithmic
DEVIATIONS = 2.0
"""Radius of the ellipses: a Gaussian in two dimensions has 86 % of its mass within two."""
MOST_NAMES = 16  # sites up to which their names stand in the plane


def survey_section(groups: Sequence[Group]) -> Section | None:
    """Return the planes of all surveyed runs; nothing if there was no survey."""
    body = [
        seed_by_seed(group, surveyed, _planes)
        for group in groups
        if (surveyed := [run for run in group.counted if run.ratings])
    ]
    return section("survey", "Who draws how", "Survey", body=html.join(body)) if body else None


def _planes(run: RunFacts) -> Html:
    number, rating = run.ratings[-1]
    planes = []
    for one in rating.parts:
        several = len(rating.parts) > 1
        which = f"class {one.class_number}: " if several else ""
        about = f"{which}survey in round {number} of {len(rating.sites)} sites"
        seen = _plane(rating, one, run.mu, about) | _strength(rating, one, run.mu)
        planes.append(part("survey_planes", seen))
    return html.join(planes)


def _plane(rating: Rating, found: Part, mu: Mapping[str, float], about: str) -> dict[str, Any]:
    known = np.flatnonzero((np.isfinite(found.q) & (found.q > 0)).all(axis=1))
    top = max((abs(value) for value in mu.values()), default=0.0)
    labels, q = found.grouping.labels, found.q[known]
    counts: Counter[str] = Counter(labels)
    shown = [(counts[label], *SIGNS[label]) for label in SIGNS if counts[label]]
    words = ", ".join(f"{count} {w.replace('draws', 'drawing')}" for count, _, _, w in shown)
    rings = {label: _ellipse(found, label) for label in ("larger", "smaller")}
    judged = [
        (label == "larger") == (mu[site] > 0)
        for site, label in zip(rating.sites, labels, strict=True)
        if site in mu and label in ("larger", "smaller")
    ]
    return {
        "about": f"{about}: {words}",
        "points": [_point(rating, found, int(k), mu, top) for k in known],
        "is_log": len(q) > 0 and bool((q.max(axis=0) > SQUEEZED * np.median(q, axis=0)).any()),
        "outlines": [(ring, SIGNS[label][1]) for label, ring in rings.items() if ring],
        "names": [rating.sites[k] for k in known] if len(known) <= MOST_NAMES else (),
        "signs": [(f"{w} ({count})", html.dot_key(*look)) for count, *look, w in shown],
        "top": top if mu else None,
        "judged": len(judged),
        "right": sum(judged),
        "reason": found.grouping.reason,
        "rows": [_row(rating, found, k, mu) for k in range(len(rating.sites))],
        "sites": rating.sites,
    }


def _row(rating: Rating, found: Part, k: int, mu: Mapping[str, float]) -> list[object]:
    numbers = [*found.q[k], found.grouping.strength[k]]
    site, group = rating.sites[k], _sign(found.grouping.labels[k])[2]
    return [html.name(site), group, *map(float, numbers), *([mu.get(site)] if mu else [])]


def _sign(label: str) -> tuple[Shape, int, str]:
    return SIGNS.get(label, SIGNS["unrated"])


def _point(rating: Rating, found: Part, k: int, mu: Mapping[str, float], top: float) -> Point:
    site, label = rating.sites[k], found.grouping.labels[k]
    shape, series, words = _sign(label)
    q = found.q[k]
    tip = f"{site}: {words}; inside {q[0]:.3f}, outside {q[1]:.3f}"
    fill = ""
    if site in mu:
        tip += f"; true mu {mu[site]:+.1f} px"
        fill = html.diverging(mu[site], top)
    return Point(float(q[0]), float(q[1]), tip, shape, series, fill, site)


def _ellipse(found: Part, label: str) -> list[tuple[float, float]]:
    """Return the ellipse of a group, each site counted by how likely it belongs there.

    It is empty for a group of two: points on a line, not an ellipse.
    """
    posterior = np.asarray(found.grouping.posterior, float)
    inside = np.array([one == label for one in found.grouping.labels])
    if np.isfinite(posterior).any():
        weight = np.nan_to_num(posterior if label == "larger" else 1 - posterior)
    else:
        weight = inside.astype(float)
    weight = np.where(np.isfinite(found.q).all(axis=1), weight, 0.0)
    if inside.sum() < 3 or weight.sum() < 2.5:
        return []
    q = np.nan_to_num(found.q)
    centre = weight @ q / weight.sum()
    covariance = (weight[:, None] * (q - centre)).T @ (q - centre) / weight.sum()
    values, axes = np.linalg.eigh(covariance)
    turn = np.linspace(0, 2 * math.pi, 181)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    ring = centre[:, None] + axes @ (DEVIATIONS * np.sqrt(np.maximum(values, 0))[:, None] * circle)
    return [(float(a), float(b)) for a, b in ring.T]


def _strength(rating: Rating, found: Part, mu: Mapping[str, float]) -> dict[str, Any]:
    strength, labels = found.grouping.strength, found.grouping.labels
    known = [k for k, site in enumerate(rating.sites) if site in mu and math.isfinite(strength[k])]
    sites = [rating.sites[k] for k in known]
    pairs = [(abs(mu[site]), float(strength[k])) for site, k in zip(sites, known, strict=True)]
    points = []
    for k, site, (x, y) in zip(known, sites, pairs, strict=True):
        tip = f"{site}: strength {y:.3f}, true |mu| {x:.1f} px"
        points.append(Point(x, y, tip, *_sign(labels[k])[:2], site=site))
    return {
        "strength": points if len(points) > 1 else (),
        "strength_sites": sites,
        "strength_rows": [[html.name(s), *pair] for s, pair in zip(sites, pairs, strict=True)],
        "ranks": _ranks([labels[k] for k in known], pairs),
    }


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
