"""Noise beyond the contour: objects left out, made up or given another class, site by site.

An object is an 8-connected part of one class. A site's objects are matched with those that a model
sees for sure; six integers per site tell how often one is missing, extra, of another class, or a
whole case empty. No pixel is needed to compare sites.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from feda3i.geometry import label_components
from feda3i.quality.edges import SIDE

Mask = NDArray[np.uint8]

SMALLEST = 15  # pixels of an object in a frame of 256 by 256; specks are nobody's decision
SURE = 0.7  # least mean probability of an object that the model sees
OVERLAP = 0.1  # least IoU of two objects that are one
FEWEST = 10  # cases of a site that is rated: counts of fewer would tell of single cases
MATTERS = 0.05  # by how much a rate's lower limit must exceed the middle of the sites

KINDS = {
    "missing": "misses {} of the objects that the model sees",
    "extra": "draws {} of its objects where the model sees none",
    "swapped": "gives {} of its objects another class than the model",
    "empty": "leaves {} of its cases empty where the model sees an object",
}
"""Types of noise, and what is said of a site that has a share of it."""


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

    def sent(self) -> list[float]:
        """Return what leaves the site: zeros if it has so few cases that one could be told."""
        return list(astuple(self if self.cases >= FEWEST else Counts()))

    @classmethod
    def received(cls, values: Sequence[float]) -> Counts:
        """Return what a site sent; nothing at all if it cannot be counts."""
        if not all(math.isfinite(value) and value == int(value) >= 0 for value in values):
            return cls()
        one = cls(*map(int, values))
        fits = one.matched <= min(one.predicted, one.drawn), one.empty <= one.cases
        return one if one.wrong <= one.matched and all(fits) else cls()

    def part_of(self, kind: str) -> tuple[int, int]:
        """Return how many objects or cases have a type of noise, of how many."""
        return {
            "missing": (self.predicted - self.matched, self.predicted),
            "extra": (self.drawn - self.matched, self.drawn),
            "swapped": (self.wrong, self.matched),
            "empty": (self.empty, self.cases),
        }[kind]


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
    for value, parts, sizes in _parts(guess):
        chance = probabilities[value - 1].reshape(-1)
        is_sure = np.bincount(parts.reshape(-1), chance, len(sizes)) >= SURE * sizes
        is_sure[0] = False
        kept[is_sure[parts]] = value
    return kept


def _parts(mask: Mask) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int64]]]:
    """Yield each class with its objects, numbered from 1, and how many pixels each number has."""
    for value in np.unique(mask[mask > 0]).tolist():
        parts, count = label_components((mask == value).view(np.uint8))
        yield value, parts, np.bincount(parts.reshape(-1), minlength=count + 1)


def count_case(drawn: Mask, sure: Mask) -> Counts:
    """Count one case: a site's label map against the objects that a model is sure of.

    >>> drawn, seen = np.zeros((2, 32, 32), np.uint8)
    >>> drawn[2:8, 2:8] = 1; seen[2:8, 3:9] = 2; seen[20:25, 20:25] = 1
    >>> count_case(drawn, seen)
    Counts(predicted=2, drawn=1, matched=1, wrong=1, cases=1, empty=0)
    """
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
    for value, parts, sizes in _parts(mask):
        is_kept = sizes >= least
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


def judge_objects(sites: Mapping[str, Counts]) -> list[ObjectFinding]:
    """Compare all sites in every kind of noise, each with the median of the rated sites.

    A site is flagged if the lower end of its interval (Wilson's, 95 %) exceeds the median by what
    matters: where most sites have no error at all, one odd object is no habit. Of two sites none is
    flagged.
    """
    return [found for kind in KINDS for found in _judge(kind, sites)]


def _judge(kind: str, sites: Mapping[str, Counts]) -> list[ObjectFinding]:
    from scipy.stats import binomtest

    parts = {site: one.part_of(kind) for site, one in sites.items()}
    rated = [site for site, one in sites.items() if one.cases >= FEWEST and parts[site][1]]
    middle = float(np.median([k / n for k, n in map(parts.__getitem__, rated)])) if rated else 0.0
    who = "the middle one of three sites" if len(rated) == 3 else "the middle of the sites"
    beside = f"{who} {100 * middle:.0f} %" if len(rated) > 2 else "too few sites to compare with"
    findings = []
    for site, (part, whole) in parts.items():
        if site not in rated:
            few = f"{sites[site].cases} cases were counted, {FEWEST} are needed"
            why = few if sites[site].cases < FEWEST else "there is nothing to count"
            findings.append(ObjectFinding(site, kind, said=why))
            continue
        ends = binomtest(part, whole).proportion_ci(method="wilson")
        share, low, high = part / whole, float(ends.low), float(ends.high)
        said = f"{KINDS[kind].format(share_with_limits(share, low, high))}; {beside}"
        is_flagged = len(rated) > 2 and low > middle + MATTERS
        findings.append(ObjectFinding(site, kind, share, low, high, middle, is_flagged, said))
    return findings


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
