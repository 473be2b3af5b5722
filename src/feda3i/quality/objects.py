"""Noise beyond the contour: objects left out, made up or given another class, site by site.

An object is an 8-connected part of one class. A site's objects are matched with those that a model
sees for sure; six integers per site tell how often one is missing, extra, of another class, or a
whole case empty. No pixel is needed to compare sites.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError
from feda3i.geometry import label_components
from feda3i.quality.edges import SIDE

Mask = NDArray[np.uint8]

SMALLEST = 15  # pixels of an object in a frame of 256 by 256; specks are nobody's decision
SURE = 0.7  # least mean probability of an object that the model sees
OVERLAP = 0.1  # least IoU of two objects that are one
FEWEST = 10  # cases of a site that is rated: counts of fewer would tell of single cases
MATTERS = 0.05  # by how much a rate's lower limit must exceed the middle of the sites
Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True)
class Counts:
    """What one site counts, and all that it sends."""

    predicted: int = 0  # objects that the model sees
    drawn: int = 0  # objects in the site's masks
    matched: int = 0  # pairs of the two
    wrong: int = 0  # pairs whose classes differ
    cases: int = 0
    empty: int = 0  # cases with an empty mask in which the model sees an object

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def fit(self) -> bool:
        """Return whether these can be counts."""
        most = min(self.predicted, self.drawn)
        parts = self.matched <= most, self.wrong <= self.matched, self.empty <= self.cases
        return min(astuple(self)) >= 0 and all(parts)

    def sent(self) -> list[float]:
        """Return what leaves the site: zeros if it has so few cases that one could be told."""
        return list(astuple(self if self.cases >= FEWEST else Counts()))

    @classmethod
    def received(cls, values: Sequence[float]) -> Counts:
        """Return what a site sent; nothing at all if it cannot be counts."""
        if not all(math.isfinite(value) and value == int(value) for value in values):
            return cls()
        found = cls(*map(int, values))
        return found if found.fit else cls()


@dataclass(frozen=True)
class Kind:
    """A type of noise: of how many objects or cases it is a share, and in words."""

    of: Callable[[Counts], tuple[int, int]]  # part and whole
    said: str


KINDS = {
    "missing": Kind(
        lambda c: (c.predicted - c.matched, c.predicted),
        "misses {} of the objects that the model sees",
    ),
    "extra": Kind(
        lambda c: (c.drawn - c.matched, c.drawn),
        "draws {} of its objects where the model sees none",
    ),
    "swapped": Kind(
        lambda c: (c.wrong, c.matched), "gives {} of its objects another class than the model"
    ),
    "empty": Kind(
        lambda c: (c.empty, c.cases), "leaves {} of its cases empty where the model sees an object"
    ),
}


@dataclass(frozen=True)
class ObjectFinding:
    """How often a site errs in one way, beside the middle of the sites."""

    site: str
    kind: str
    share: float | None = None  # ``None`` if unrated; with the ends of its 95 % interval
    low: float | None = None
    high: float | None = None
    middle: float | None = None  # median of the rated sites
    is_flagged: bool = False
    said: str = ""  # in words, or why it is not rated


def sure_objects(guess: Mask, probabilities: NDArray[np.floating]) -> Mask:
    """Return a predicted label map without the objects that the model is not sure of.

    ``probabilities`` are ``(class, *space)``.
    """
    kept = np.zeros_like(guess)
    for value in np.unique(guess[guess > 0]).tolist():
        parts, count = label_components((guess == value).view(np.uint8))
        flat = parts.reshape(-1)
        total = np.bincount(flat, probabilities[value - 1].reshape(-1), count + 1)
        is_sure = total >= SURE * np.bincount(flat, minlength=count + 1)
        is_sure[0] = False
        kept[is_sure[parts]] = value
    return kept


def count_case(drawn: Mask, sure: Mask) -> Counts:
    """Count one case: a site's label map against the objects that a model is sure of.

    >>> drawn, seen = np.zeros((2, 32, 32), np.uint8)
    >>> drawn[2:8, 2:8] = 1; seen[2:8, 3:9] = 2; seen[20:25, 20:25] = 1
    >>> count_case(drawn, seen)
    Counts(predicted=2, drawn=1, matched=1, wrong=1, cases=1, empty=0)
    """
    if drawn.shape != sure.shape:
        raise DataError(f"expected two masks of one shape, found {drawn.shape} and {sure.shape}")
    (given, given_class), (seen, seen_class) = _numbered(drawn), _numbered(sure)
    pairs = _matched(given, seen, len(given_class), len(seen_class))
    return Counts(
        predicted=len(seen_class) - 1,
        drawn=len(given_class) - 1,
        matched=len(pairs),
        wrong=sum(given_class[i] != seen_class[j] for i, j in pairs),
        cases=1,
        empty=int(len(seen_class) > 1 and not drawn.any()),
    )


def count_logits(drawn: Mask, logits: NDArray[np.floating]) -> Counts:
    """Count one case against a model's logits ``(class, *space)``."""
    guess = np.where(logits.max(axis=0) > 0, logits.argmax(axis=0) + 1, 0).astype(np.uint8)
    chance = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
    return count_case(drawn, sure_objects(guess, chance))


def _numbered(mask: Mask) -> tuple[NDArray[np.int64], list[int]]:
    """Return where each object lies, numbered from 1, and the class by number (0: background)."""
    numbers, classes = np.zeros(mask.shape, np.int64), [0]
    least = SMALLEST * mask.size / SIDE**mask.ndim
    for value in np.unique(mask[mask > 0]).tolist():
        parts, count = label_components((mask == value).view(np.uint8))
        is_kept = np.bincount(parts.reshape(-1), minlength=count + 1) >= least
        is_kept[0] = False
        numbers += np.where(is_kept, np.cumsum(is_kept) + len(classes) - 1, 0)[parts]
        classes += [value] * int(is_kept.sum())
    return numbers, classes


def _matched(
    one: NDArray[np.int64], two: NDArray[np.int64], rows: int, columns: int
) -> list[tuple[int, int]]:
    """Return pairs of numbers, one to one, the largest IoU first."""
    both = np.bincount((one * columns + two).reshape(-1), minlength=rows * columns)
    shared = both.reshape(rows, columns)
    union = shared.sum(1)[:, None] + shared.sum(0) - shared
    iou = (shared / np.maximum(union, 1))[1:, 1:]
    places = np.argwhere(iou >= OVERLAP)
    order = np.argsort(-iou[tuple(places.T)], kind="stable")
    found: list[tuple[int, int]] = []
    for i, j in (places[order] + 1).tolist():
        if all(i != a and j != b for a, b in found):
            found.append((i, j))
    return found


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % interval of a share after Wilson.

    >>> [round(end, 3) for end in wilson(3, 10)]
    [0.108, 0.603]
    """
    share, more = part / whole, Z * Z / whole
    middle, half = share + more / 2, Z * math.sqrt(share * (1 - share) / whole + more / whole / 4)
    return max(0.0, (middle - half) / (1 + more)), min(1.0, (middle + half) / (1 + more))


def judge_objects(sites: Mapping[str, Counts]) -> list[ObjectFinding]:
    """Compare all sites in every kind of noise, each with the median of the rated sites.

    A site is flagged if the lower end of its interval exceeds the median by what matters: where
    most sites have no error at all, one odd object is no habit. Of two sites none is flagged.
    """
    for site, one in sites.items():
        if not one.fit:
            raise DataError(f"{site}: expected counts of objects that fit together, found {one}")
    return [found for name in KINDS for found in _judge(name, sites)]


def _judge(name: str, sites: Mapping[str, Counts]) -> list[ObjectFinding]:
    kind = KINDS[name]
    parts = {site: kind.of(one) for site, one in sites.items()}
    why = {site: _unrated(one, parts[site][1]) for site, one in sites.items()}
    shares = [part / whole for site, (part, whole) in parts.items() if not why[site]]
    middle = float(np.median(shares)) if shares else math.nan
    found = []
    for site, (part, whole) in parts.items():
        if why[site]:
            found.append(ObjectFinding(site, name, said=why[site]))
            continue
        share, (low, high) = part / whole, wilson(part, whole)
        words = kind.said.format(share_with_limits(share, low, high))
        said = f"{words}; {_beside(len(shares), middle)}"
        is_flagged = len(shares) > 2 and low > middle + MATTERS
        found.append(ObjectFinding(site, name, share, low, high, middle, is_flagged, said))
    return found


def _unrated(one: Counts, whole: int) -> str:
    if one.cases < FEWEST:
        return f"{one.cases} cases were counted, {FEWEST} are needed"
    return "" if whole else "there is nothing to count"


def _beside(rated: int, middle: float) -> str:
    if rated < 3:
        return "too few sites to compare with"
    who = "the middle one of three sites" if rated == 3 else "the middle of the sites"
    return f"{who} {100 * middle:.0f} %"


def share_with_limits(share: float, low: float, high: float) -> str:
    """Return a share with its interval.

    >>> share_with_limits(0.21, 0.11, 0.36)
    '21 % (11 to 36 %)'
    """
    return f"{100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def flags(findings: Sequence[ObjectFinding]) -> list[str]:
    """Return what stands out, in words; if nothing does among rated sites, that."""
    if any(one.is_flagged for one in findings):
        return [f"{one.site} {one.said}" for one in findings if one.is_flagged]
    if not any(one.share is not None for one in findings):
        return []
    return ["no site misses, makes up or swaps objects more often than the others, beyond chance"]
