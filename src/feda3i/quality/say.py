"""Who has how much say after a survey, and why, in one plain sentence per unusual site."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from feda3i.quality.rating import Part, Rating
from feda3i.quality.weights import shares

UNUSUAL = 1.5
"""A say of this many times the share of cases, or less than the inverse, is worth a line."""
MOST_LINES = 8


def say_lines(
    rating: Rating, present: Sequence[str], counts: ArrayLike, most: int = MOST_LINES
) -> list[str]:
    """Return the rule's own words, then one line per unusual site, the farthest from its share.

    Parameters
    ----------
    rating
        The result of a survey.
    present, counts
        Names of the sites that take part, and ``(site,)`` their numbers of cases.
    most
        Lines about sites at most; a last line counts the others.

    >>> from feda3i.quality import SiteSurvey, balance_by_offset
    >>> def survey(offset):
    ...     found = {"q": [[0.5, 0.5]], "cases": [8], "offset": [[offset, 0.5]]}
    ...     return SiteSurvey.from_dict(found)
    >>> drawn = {"a": -6.0, "b": -5.0, "c": -5.0, "d": 0.0, "e": 8.0}
    >>> counts = dict.fromkeys(drawn, 8)
    >>> rating = balance_by_offset({k: survey(v) for k, v in drawn.items()}, counts)
    >>> say_lines(rating, list(drawn), list(counts.values()))[1].split(": ")[1]
    '10 % of the weight in the last stage (20 % of the cases)'
    """
    size, weights = shares(counts), rating.weights(present, counts)
    ratio = np.log(np.maximum(weights, 1e-12) / np.maximum(size, 1e-12))
    unusual = np.flatnonzero(np.abs(ratio) > np.log(UNUSUAL))
    unusual = unusual[np.argsort(-np.abs(ratio[unusual]), kind="stable")]
    reasons = dict.fromkeys(part.grouping.reason for part in rating.parts)
    lines = [f"survey of {len(rating.sites)} sites: {'; '.join(reasons)}"]
    lines += doubts(rating)
    for where in unusual[:most]:
        name = present[where]
        lines.append(
            f"{name}: {weights[where]:.0%} of the weight in the last stage ({size[where]:.0%} of "
            f"the cases): {why(rating, name)}".replace("%", " %")
        )
    if len(unusual) > most:
        lines.append(f"and {len(unusual) - most} more sites, see the survey in events.jsonl")
    return lines


def doubts(rating: Rating) -> list[str]:
    """Return a sentence for every grouping that another start of the mixture rather would not give.

    The mixture is started several times and the likeliest fit counts. Where single starts mostly
    end elsewhere, the two groups are not plain in the sites' numbers.
    """
    several = len(rating.parts) > 1
    return [
        f"the groups are doubtful{f' (class {part.class_number})' * several}: "
        f"{part.grouping.agreement:.0%} of single starts of the mixture give them; a longer "
        f"warm-up (t1), more sites or safe = true help".replace("%", " %")
        for part in rating.parts
        if part.grouping.is_doubtful
    ]


def why(rating: Rating, name: str) -> str:
    """Return in words why a survey gives a site its say."""
    if name not in rating.sites:
        return "it was not surveyed"
    row = rating.sites.index(name)
    several = len(rating.parts) > 1
    return "; ".join(
        (f"class {part.class_number}: " if several else "") + _reason(part, row)
        for part in rating.parts
    )


def _reason(part: Part, row: int) -> str:
    label, groups = part.grouping.labels[row], part.grouping
    if label == "unrated":
        return "not rated, so its share of the cases counts"
    if groups.rule == "balance":
        return f"draws {groups.strength[row]:.1f} px {label} than the middle"
    members = groups.members(label)
    order = members[np.argsort(groups.strength[members], kind="stable")]
    place = int(np.flatnonzero(order == row)[0]) + 1
    kind = "all" if label == "all" else f"those who draw {label}"
    rank = "best" if place == 1 else "noisiest" if place == len(order) else f"number {place}"
    return f"{rank} of {len(order)} among {kind}"
