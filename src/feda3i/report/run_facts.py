"""What a report knows of one run: every value checked once, odd ones left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, OnErrorOmit, ValidationError, WrapValidator
from pydantic_core import PydanticUseDefault

from feda3i.quality import Rating

State = Literal["done", "under way", "unfinished", "never began"]
Row = dict[str, Any]
LARGEST = 1e100


def _or_default(value: Any, check: Any) -> Any:
    """Take the default of a field instead of an odd value: one field costs that field alone."""
    try:
        return check(value)
    except (ValidationError, OverflowError):
        raise PydanticUseDefault from None


Number = Annotated[float, Field(strict=True, gt=-LARGEST, lt=LARGEST)]
"""A number that is not too large to sum."""
Whole = Annotated[int, Field(strict=True, ge=0, lt=10**15)]
Numbers = Annotated[
    list[Number], BeforeValidator(lambda given: given if isinstance(given, list) else [given])
]
Offset = tuple[Number, Number, Number]
"""Pixels outside the border in the images, standard error, cases."""
Odd = WrapValidator(_or_default)
Texts = Annotated[dict[str, Annotated[str, BeforeValidator(str)]], Odd]


class RoundFacts(BaseModel):
    """What the log says of one round."""

    round: Whole
    loss: Annotated[Number | None, Odd] = None
    dice: Annotated[Number | None, Odd] = None
    iou: Annotated[Number | None, Odd] = None
    hd95: Annotated[Number | None, Odd] = None
    seconds: Annotated[Number | None, Odd] = None
    asked: Annotated[Whole, Odd] = 0
    site_loss: Annotated[dict[str, Any], Odd] = {}
    missing: Texts = {}
    bytes_received: Annotated[dict[str, OnErrorOmit[Whole]], Odd] = {}
    """Bytes that came from each site, where a network counted them."""
    weights: Annotated[dict[str, Numbers], Odd] = {}
    offsets: Annotated[dict[str, OnErrorOmit[list[Offset]]], Odd] = {}
    moved: Annotated[dict[str, OnErrorOmit[Numbers]], Odd] = {}
    survey_missing: Texts = {}
    t1_reason: Any = None

    def score(self, name: str) -> float | None:
        """Return a mean score of the round."""
        found: float | None = getattr(self, name)
        return found

    @property
    def answered(self) -> list[str]:
        """Return the sites that took part."""
        return sorted(self.site_loss)


@dataclass
class RunFacts:
    """Everything that a report needs to know of one run."""

    path: Path
    state: State = "never began"
    recipe: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)
    rounds: list[RoundFacts] = field(default_factory=list)
    ratings: list[tuple[int, Rating]] = field(default_factory=list)
    """Round and result of every survey."""
    weights: dict[str, list[float]] = field(default_factory=dict)
    """Of the last round that has any: site -> one weight, or one per stage."""
    offsets: dict[str, list[Offset]] = field(default_factory=dict)
    """Of each site and class: pixels outside the border in the images, standard error, cases."""
    moved: dict[str, list[float]] = field(default_factory=dict)
    """Pixels by which each site moved its contours outwards, by class."""
    # Scores of cases after the last scored round
    test: list[Row] = field(default_factory=list)
    train: list[Row] = field(default_factory=list)
    t1_reason: Any = None  # why FedA3I surveyed when it did, with ``t1 = "auto"``
    survey_missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the run said of itself
    problems: list[str] = field(default_factory=list)  # what is wrong with the folder, in sentences

    @property
    def name(self) -> str:
        """Return what the folder is called."""
        return self.path.name or str(self.path)

    @property
    def data(self) -> dict[str, Any]:
        """Return what the manifest says of the data."""
        return table_of(self.manifest.get("data"))

    @property
    def classes(self) -> list[str]:
        """Return the names of the foreground classes; empty if they are not known."""
        given = self.data.get("classes")
        return [str(one) for one in given] if isinstance(given, list) else []

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(table_of(self.recipe.get("method")).get("name", "unknown method"))

    @property
    def seed(self) -> int | None:
        """Return the seed, if it is known."""
        return whole_of(self.recipe.get("seed", self.manifest.get("seed")), 2**63)

    @property
    def planned(self) -> int:
        """Return how many rounds were planned; 0 if unknown."""
        return whole_of(self.recipe.get("rounds")) or 0

    @property
    def cases(self) -> dict[str, int]:
        """Return the number of cases of each site; 0 if unknown."""
        # One pooled site trained; the manifest names those it was made of.
        given = {} if self.method == "central" else table_of(self.data.get("sites"))
        counts = {site: whole_of(count) for site, count in given.items()}
        found = {site: count for site, count in counts.items() if count is not None}
        for one in self.rounds:
            for site in (*one.answered, *one.missing):
                found.setdefault(site, 0)
        return dict(sorted(found.items()))

    @property
    def is_patched(self) -> bool:
        """Return whether sites trained on patches: offsets are then in px at 256 of each case."""
        return bool(table_of(self.recipe.get("train")).get("patch"))

    @property
    def mu(self) -> dict[str, float]:
        """Return the true offset of each site's annotator in pixels; empty if it is unknown."""
        notes = table_of(self.data.get("notes"))
        annotators = table_of(notes.get("annotators"))
        given = {site: number_of(table_of(one).get("mu")) for site, one in annotators.items()}
        return {site: mu for site, mu in given.items() if mu is not None}


def table_of(value: Any) -> dict[str, Any]:
    """Return a value if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def number_of(value: Any) -> float | None:
    """Return a value if it is a number that is not too large to sum."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None  # NaN is not smaller either


def whole_of(value: Any, below: int = 10**15) -> int | None:
    """Return a value if it is a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < below else None
