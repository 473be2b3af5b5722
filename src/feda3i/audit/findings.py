"""What an audit says: one finding per site and class, with the reason; no case, no pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from feda3i import __version__
from feda3i.quality.objects import ObjectFinding

Verdict = Literal["larger", "smaller", "slightly", "about the same", "cannot tell"]
Interval = tuple[float, float, float]
"""An offset and the ends of its 95 % interval."""

RELATIVE = (
    "The answer is relative: sites are compared with each other, zero is their mean, and nobody "
    "can tell whether all of them draw too large or too small. With --trusted masks the answer "
    "becomes absolute."
)
ABSOLUTE = (
    "The answer is absolute: sites are compared with trusted masks, zero is where those were drawn."
)
COVERED = (
    "An interval (95 %) covers the chance of which cases a site happens to have, and what the two "
    "estimators differ by: borders in the images and a model's contours share no evidence. It "
    "does not cover a mistake that both make."
)


def sign_of(unit: str) -> str:
    """Return a unit as a sentence or the head of a column has it."""
    return "mm" if unit == "mm" else "px"


@dataclass(frozen=True)
class SiteFinding:
    """How one site draws one class, in the audit's unit."""

    site: str
    class_name: str
    # Cases of the site, and those of them that could be measured
    cases: int
    measured: int
    verdict: Verdict
    reason: str  # why the verdict is what it is, in words
    # How far the site draws outside the mean of the sites (or outside the trusted masks), and the
    # ends of the 95 % interval
    relative: float | None = None
    low: float | None = None
    high: float | None = None
    sure: float | None = None
    """0..1: probability that the site lies on the side of zero where it was found."""
    by_estimator: Mapping[str, Interval | None] = field(default_factory=dict)
    """The same by each estimator alone; ``None``: it cannot tell."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Why an estimator cannot tell, by its name."""


@dataclass(frozen=True)
class Overall:
    """All sites together, for one class."""

    class_name: str
    rated: int
    chance: float
    """How often sites that draw alike would differ as much as these (Cochran's Q)."""
    spread: float | None  # standard deviation of the sites' own offsets (tau), in the unit
    agreement: float | None
    """Spearman's correlation of the two estimators over the sites that both can tell; ``None`` with
    one estimator or fewer than four such sites."""
    said: str  # the same in words


@dataclass(frozen=True)
class Audit:
    """The shareable result of an audit."""

    title: str
    how: str  # by which model, on which cases, in words
    unit: str  # of every distance: ``px``, ``px of the original images`` or ``mm``
    is_absolute: bool  # whether zero is where trusted masks were drawn, not the mean of the sites
    overall: tuple[Overall, ...]
    findings: tuple[SiteFinding, ...]
    objects: tuple[ObjectFinding, ...] = ()  # noise beyond the contour, if a model judged
    notes: tuple[str, ...] = ()
    true: Mapping[str, float] = field(default_factory=dict)
    """In simulations, by how much each site's annotator draws outside the truth."""

    @property
    def read(self) -> tuple[str, str]:
        """Return how to read it: what an audit can and cannot tell."""
        return ABSOLUTE if self.is_absolute else RELATIVE, COVERED

    def of_class(self, name: str) -> list[SiteFinding]:
        """Return the findings of a class from the smallest to the largest drawer, unjudged last."""
        mine = [one for one in self.findings if one.class_name == name]
        return sorted(mine, key=lambda f: (f.relative is None, f.relative or 0.0, f.site))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"feda3i": __version__, **asdict(self)}
