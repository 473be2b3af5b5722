"""Load a folder of images and masks as cases, or as a federation of sites."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from feda3i.core.cases import Cases, Federation, Index
from feda3i.data.division import Dividing, Division, as_test, home, list_folder, plan_cases
from feda3i.data.packed import Packed, pack_cases
from feda3i.errors import DataError
from feda3i.reading.file_list import FileEntry
from feda3i.reading.listing import Listing, find_any
from feda3i.reading.match import Pair
from feda3i.reading.options import Options
from feda3i.reading.problems import Problem
from feda3i.reading.usage import usage_of


@dataclass(frozen=True, kw_only=True)
class Folder(Dividing, Options):
    """A folder or table as a federation; published sets have other defaults and a layout."""

    path: Path | None = None
    """A folder of images and masks in any common layout, or a CSV table."""
    cache: bool = True
    """Keep a packed copy of the pixels for the next start."""

    about: ClassVar[str] = ""  # a published set, and where to get it
    licence: ClassVar[str] = ""  # as the publisher says

    def find(
        self, entries: Sequence[FileEntry], options: Options
    ) -> tuple[list[Pair], list[Problem]]:
        """Pair the files; a published set looks for its publisher's layout first."""
        return find_any(entries, options)

    def plan(self) -> Division:
        """Return who would train on what; no pixel is read."""
        if self.path is None:
            raise DataError(f"no data given: {self.about}{_ADD}")
        listing = list_folder(self.path.expanduser(), self, self.find)
        # The number of sites of a published set is that of its simulated ones.
        simulated = bool(self.about) and self.partition == "by-folder"
        return plan_cases(listing, replace(self, sites=None) if simulated else self)

    def preview(self) -> Division:
        """Return the plan, and keep it for :meth:`federation`: one run lists its folder once."""
        _PREVIEWED.clear()
        return _PREVIEWED.setdefault(self, self.plan())

    def federation(self) -> Federation:
        """Return the federation."""
        plan = _PREVIEWED.pop(self, None) or self.plan()
        listing = plan.listing.take([*plan.train, *plan.tests])
        packed = pack_cases(listing, cache=self.cache)
        both = _cases(listing, packed, plan.homes)
        used = np.sort(np.concatenate(list(plan.parts.values())))
        clean = None
        if plan.reference:
            known = plan.listing.take(plan.reference)
            clean = _take(_cases(known, pack_cases(known, cache=self.cache)), used).masks
        return Federation(
            train=_take(both, used),
            clean_masks=clean,
            sites={site: np.searchsorted(used, part) for site, part in plan.parts.items()},
            test=_take(both, plan.wanted + len(plan.train)),
            classes=listing.options.classes,
            notes=self._notes(plan, packed),
        )

    def _notes(self, plan: Division, packed: Packed) -> dict[str, Any]:
        listing = plan.listing
        notes: dict[str, Any] = {
            "path": str(listing.root),
            "partition": plan.partition,
            "seed": self.seed,
            "options": listing.options.record(),
            "mended": packed.mended,
            "folders": usage_of(listing.fates),
        }
        if left := plan.left_out():
            notes["left_out"] = left
        if plan.partition == "dirichlet":
            notes["alpha"] = self.alpha
        if self.licence:
            notes["licence"] = self.licence
        return notes


_PREVIEWED: dict[Folder, Division] = {}
_ADD = "add data=FOLDER (or data=TABLE.csv, or data=synthetic for drawn cases)"


def load_folder(
    path: str | Path, split: str | None = None, cache: bool = True, **options: Any
) -> Cases:
    """Return the cases of a folder or table; the options are those of :class:`Options`.

    ``split`` is ``"train"`` or ``"test"`` for that part only (as the folder divides it; validation
    cases are test cases if there are no others).
    """
    listing = list_folder(Path(path).expanduser(), Options.of(options))
    return load_listed(listing, split, cache)


def load_listed(listing: Listing, split: str | None = None, cache: bool | Path = True) -> Cases:
    """Return listed cases, or those of one side of the split."""
    if split is not None:
        sides = as_test(listing.cases)
        found = [case for case, side in zip(listing.cases, sides, strict=True) if side == split]
        listing = listing.take(found)
        if not listing.cases:
            raise DataError(f"'{listing.root}' has no case in the split '{split}'")
    listing = listing.take([listing.with_masks_of(case) for case in listing.cases])
    return _cases(listing, pack_cases(listing, cache=cache))


def folder(path: str | Path, **options: Any) -> Federation:
    """Return a folder or table as a federation; the options are those of :class:`Folder`."""
    return Folder.of({"path": path, **options}).federation()


def _cases(listing: Listing, packed: Packed, homes: Mapping[str, str] | None = None) -> Cases:
    names = {h: h for h in map(home, listing.cases)} if homes is None else homes
    sites = tuple(names.get(home(case), home(case)) for case in listing.cases)
    return Cases(
        ids=tuple(case.id for case in listing.cases),
        images=packed.images,
        masks=packed.masks,
        sources=tuple(case.source for case in listing.cases),
        sites=sites if any(sites) and names else (),
        spacing=packed.spacing,
        zoom=packed.zoom,
        groups=tuple(case.group for case in listing.cases),
    )


def _take(cases: Cases, index: Index) -> Cases:
    """Return cases at sorted positions; an unbroken range stays mapped to memory, uncopied."""
    start, stop = int(index[0]), int(index[-1]) + 1
    if stop - start != len(index):
        return cases.take(index)
    return cases.take(slice(start, stop))
