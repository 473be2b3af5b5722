"""Plan a federation of a folder before any pixel is read: which case trains where, what is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from feda3i.core.cases import Index
from feda3i.data.partition import Parts, divide, split_cases
from feda3i.errors import DataError
from feda3i.reading.listing import Finder, Listing, list_cases
from feda3i.reading.match import Pair
from feda3i.reading.names import shown_names
from feda3i.reading.options import Options
from feda3i.reading.problems import raise_errors
from feda3i.reading.usage import usage_lines
from feda3i.seeding import rng

Count = Annotated[int, Field(ge=1)]


@checked(frozen=True, kw_only=True, config={"extra": "forbid"})
class Dividing:
    """How cases become sites, training cases and test cases."""

    sites: Count | None = None
    """Number of sites; not needed with real sites (partition ``by-folder``)."""
    cases: Count | None = None
    """Training cases per site; of a folder at most this many, drawn, not cut off."""
    test: Count | None = None
    """Test cases; of a folder at most this many, drawn, not cut off."""
    partition: str | None = None
    """``iid``, ``by-source``, ``dirichlet``, ``published`` or ``by-folder``; not set: ``by-folder``
    if there are several folders and no number of ``sites``, else ``iid``."""
    consensus_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the sites that train on the consensus of all annotators, where there are several."""
    alpha: Annotated[float, Field(gt=0)] = 0.5
    """Of the dirichlet partition: small values make unequal sites."""
    seed: int = 0
    """Seed of what the data set draws, cases or their division, if it is not to be the run's."""


@dataclass(frozen=True)
class Division:
    """Who trains on what."""

    listing: Listing
    # The cases of each side, before limits
    train: tuple[Pair, ...]
    tests: tuple[Pair, ...]
    parts: Parts  # site -> positions in ``train``, after the limit on cases per site
    wanted: Index  # positions in ``tests`` that are scored
    partition: str  # how the sites came about
    homes: dict[str, str]  # folder -> name of the site that it became; empty if none did
    aside: int = 0  # validation cases beside test cases: neither trained on nor scored
    reference: tuple[Pair, ...] = ()  # ``train`` with the reference, where several people drew

    def left_out(self) -> dict[str, int]:
        """Return how many training and test cases the limits leave out, and validation cases."""
        counts = {
            "cases": len(self.train) - sum(map(len, self.parts.values())),
            "test": len(self.tests) - len(self.wanted),
            "validation": self.aside,
        }
        return {name: count for name, count in counts.items() if count}

    def real_sites(self) -> list[str]:
        """Return the folders that look like real sites; none if there is one folder only."""
        found = {home(case) for case in self.train}
        return sorted(found) if len(found) > 1 and all(found) else []


def plan_cases(listing: Listing, how: Dividing) -> Division:
    """Divide listed cases."""
    # Sites without folders of their own (a table) are divided like sources.
    folders = [home(case) for case in listing.cases]
    groups = [case.group for case in listing.cases]
    given = as_test(listing.cases)
    sides = split_cases(folders, groups, given)
    train, tests = _of_side(listing, sides, "train"), _of_side(listing, sides, "test")
    has_folders = len(set(folders)) > 1
    name = how.partition or ("by-folder" if how.sites is None and has_folders else "iid")
    people = any(case.annotators for case in train)
    is_free = how.partition is None or (how.partition == "by-folder" and not has_folders)
    if people and listing.options.annotators == "each" and is_free:
        name, homes = "by-annotator", dict[str, str]()
        parts = _deal_to_annotators(train, how.seed)
    else:
        parts, homes = _divide_sites(train, name, how)
    lost = [home(case) for case in listing.cases if not case.split and home(case)]
    for site in lost if homes and listing.options.unused == "error" else ():
        if site not in homes:
            raise DataError(
                f"site '{site}' has no training case: all it has was drawn for testing. Add cases, "
                f"put them into '{site}/train', or leave the site to testing with data.unused=allow"
            )
    limited = {s: _draw(part, how.cases, how.seed, "cases", s) for s, part in parts.items()}
    return Division(
        listing=listing,
        train=_drawn_by_people(listing, train, parts, how) if people else train,
        tests=tuple(map(listing.with_masks_of, tests)),
        parts=limited,
        wanted=_draw(np.arange(len(tests)), how.test, how.seed, "test"),
        partition=name,
        homes=homes,
        aside=sides.count("validation"),
        reference=tuple(map(listing.with_masks_of, train)) if people else (),
    )


def list_folder(root: Path, options: Options, find: Finder | None = None) -> Listing:
    """Return the cases of a folder or table; raise an error that names what cannot be used."""
    listing, problems = list_cases(root, options, find)
    raise_errors(problems, root, usage_lines(listing.fates))
    if not listing.cases:
        raise DataError(f"'{root}' holds no case")
    return listing


def home(case: Pair) -> str:
    """Return the folder that a case comes from: its site if that is known, else its source."""
    return case.site or case.source


def as_test(cases: Sequence[Pair]) -> list[str]:
    """Return the splits of cases; validation cases are test cases where their site has no others.

    Elsewhere they are left aside.
    """
    tested = {home(case) for case in cases if case.split == "test"}
    return [
        "test" if case.split == "validation" and home(case) not in tested else case.split
        for case in cases
    ]


def _of_side(listing: Listing, sides: Sequence[str], side: str) -> tuple[Pair, ...]:
    found = tuple(c for c, s in zip(listing.cases, sides, strict=True) if s == side)
    if not found:
        raise DataError(f"'{listing.root}' has no {side} cases: add some, or remove the split")
    return found


def _divide_sites(
    train: Sequence[Pair], partition: str, how: Dividing
) -> tuple[Parts, dict[str, str]]:
    """Return the sites, and which folder became which site where that is so."""
    folders = [home(case) for case in train]
    sources = [case.source or case.site for case in train]
    draw = rng(how.seed, "partition")
    parts = divide(
        partition, sources=sources, folders=folders, sites=how.sites, rng=draw, alpha=how.alpha
    )
    # A hospital keeps its name; who makes a file for a site finds a file name for it.
    shown = dict(zip(parts, shown_names(list(parts)), strict=True))
    origin = folders if partition == "by-folder" else sources
    homes = {o: shown[o] for o in set(origin)} if set(origin) <= parts.keys() else {}
    return {shown[name]: part for name, part in parts.items()}, homes


def _annotators(case: Pair) -> list[str]:
    return [name for name, _ in case.annotators]


def _deal_to_annotators(cases: Sequence[Pair], seed: int) -> Parts:
    """Give every case to one of those who have drawn it: the one with the fewest so far.

    Cases of one group go together, so no patient is at two sites.
    """
    groups: dict[str, list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault(case.group or case.id, []).append(place)
    dealt: dict[str, list[int]] = {}
    order = rng(seed, "annotators").permutation(len(groups))
    for own in (list(groups.values())[k] for k in order):
        while own:  # more than once only if nobody has drawn all cases of the group
            names = set.intersection(*(set(_annotators(cases[place])) for place in own))
            names = names or set(_annotators(cases[own[0]]))
            least = min(sorted(names), key=lambda name: len(dealt.get(name, ())))
            dealt.setdefault(least, []).extend(p for p in own if least in _annotators(cases[p]))
            own = [place for place in own if least not in _annotators(cases[place])]
    return {name: np.sort(np.array(own)) for name, own in sorted(dealt.items())}


def _drawn_by_people(
    listing: Listing, train: Sequence[Pair], parts: Parts, how: Dividing
) -> tuple[Pair, ...]:
    found, choice = list(train), listing.options.annotators
    count = round(how.consensus_share * len(parts))
    agreed = set(rng(how.seed, "consensus").permutation(sorted(parts))[:count].tolist())
    for site, part in parts.items():
        for place in part:
            case, own = train[place], _annotators(train[place])
            name = ""
            if own and choice == "random":
                name = own[rng(how.seed, "annotator", case.id).integers(len(own))]
            elif choice == "each" and site in own:
                name = site
            found[place] = listing.with_masks_of(case, "" if site in agreed else name)
    return tuple(found)


def _draw(part: Index, limit: int | None, seed: int, *scope: str) -> Index:
    if limit is None or len(part) <= limit:
        return part
    return np.sort(rng(seed, "draw", *scope).permutation(part)[:limit])
