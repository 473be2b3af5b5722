"""How files become cases: the options that every data set on disk shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from feda3i.errors import RecipeError, check_option
from feda3i.values import mistakes

MIN_SIZE, MAX_SIZE = 16, 4096  # of cases that a network is trained on, in pixels
DEFAULT_CLASSES = ("lesion",)

Unused = Literal["error", "allow"]
Millimetres = Annotated[float, Field(gt=0, lt=1e6)]


@dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})
class Options:
    """What the readers do with the files of a folder or table."""

    size: Annotated[int, Field(ge=1, le=MAX_SIZE)] | None = None
    """Side of every case in pixels; not set: the files as they are, pictures all of one size."""
    channels: Annotated[int, Field(ge=1, le=64)] | None = None
    """1 (grey), 3 (colour) or the files per case (nnU-Net); not set: colour if any image has it."""
    classes: Annotated[tuple[str, ...], Field(max_length=255)] = ()
    """Names of the mask values 1, 2, ...; with one class, masks are cut at half of their maximum.
    Not set: as a ``dataset.json`` says, else ``lesion``."""
    volumes: Literal["whole", "slices"] | None = None
    """Read volumes, ``whole`` or as ``slices``; cases then keep their own sizes unless ``size`` is
    given."""
    axis: Literal[0, 1, 2] = 2
    """Axis of a volume's array along which its slices lie."""
    values: Literal["bytes", "kept"] | None = None
    """``kept``: the values of volumes and deep pictures as in the files (the default with
    ``volumes``); ``bytes``: scaled to 0..255."""
    spacing: Annotated[tuple[Millimetres, ...], Field(min_length=2, max_length=3)] | None = None
    """Millimetres along each side of a voxel (slice, row, column) to resample to."""
    group: str | None = None
    """Pattern with a ``(?P<group>...)``: cases of one group (a patient) stay on one side of the
    split. Not set: names that differ in a trailing ``-l``, ``-r``, ``-s``, ``OD``, ``OS`` only."""
    unused: Unused = "error"
    """``error`` refuses pictures that belong to no case, ``allow`` leaves them out."""
    annotators: Literal["each", "random", "majority", "staple"] = "each"
    """For ``annotators/NAME/`` beside ``images/``: a site of each, whose images no other site has;
    one at random for each case; or their consensus, by majority or STAPLE. Testing is against
    ``masks/``, or else the consensus."""
    annotators_of: str = "*"
    """Pattern of the annotators to take, e.g. ``*_disc``."""
    allow_outside: bool = False
    """Follow links, and paths of a table, that lead outside the folder."""

    def __post_init__(self) -> None:
        if self.group is not None:
            _check_group(self.group)
        if self.spacing is not None and self.size is not None:
            raise RecipeError(
                f"expected a size in pixels or a spacing in millimetres, found both: size "
                f"{self.size} and spacing {list(self.spacing)}"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the options that a recipe gives; every mistake is named in one ``RecipeError``."""
        for option in given:
            check_option("data", option, cls.__dataclass_fields__)
        try:
            return cls(**given)
        except ValidationError as error:
            raise RecipeError(mistakes(error, "data")) from None

    @property
    def whole(self) -> bool:
        """Return whether volumes stay whole."""
        return self.volumes == "whole"

    @property
    def keep_values(self) -> bool:
        """Return whether values stay as in the files instead of becoming bytes."""
        return self.values == "kept" or (self.values is None and self.volumes is not None)

    def reading(self) -> Options:
        """Return these options alone, without those of a subclass."""
        return Options(**{name: getattr(self, name) for name in Options.__dataclass_fields__})

    def record(self) -> dict[str, Any]:
        """Return what decides over the pixels as JSON values, without what is as by default."""
        usual, quiet = asdict(Options()), ("group", "unused", "allow_outside")
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.reading()).items()
            if value != usual[name] and name not in quiet
        }


def _check_group(pattern: str) -> None:
    try:
        named, wrong = re.compile(pattern).groupindex, ""
    except (re.error, OverflowError, RecursionError) as error:
        named, wrong = {}, f" ({error})"
    if "group" not in named:
        raise RecipeError(
            "group: expected a regular expression with a part (?P<group>...), for example "
            f"'(?P<group>[^_]+)_.*', found '{pattern}'{wrong}"
        )
