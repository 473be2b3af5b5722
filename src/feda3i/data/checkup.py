"""Is a folder fit for training? Looks at every case once, keeps no pixel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from feda3i.data.case_facts import ANY_CLASS, Facts, look_at
from feda3i.data.division import as_test, home
from feda3i.data.duplicates import find_duplicates
from feda3i.data.partition import split_cases
from feda3i.data.run_lines import command_lines
from feda3i.pool import ordered_map
from feda3i.reading.listing import Listed, Listing, holds_volumes, list_cases
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE, Options, check_size
from feda3i.reading.pairs import Pair
from feda3i.reading.problems import CaseError, Level, Problem, by, errors_of
from feda3i.reading.usage import Unused, Usage, without

_BATCH = 8  # cases that a worker takes at a time
_MOST_SITES, _SITE_CASES = 12, 8  # simulated sites, and training cases of one
_MOST_CLASSES = 32  # mask values above this are strays unless their classes are named


@dataclass(frozen=True)
class Checkup:
    """All findings; ``feda3i.data.check_report`` turns them into text."""

    root: Path
    cases: tuple[Listed, ...]
    facts: tuple[Facts, ...]
    split: tuple[str, ...]  # of every case; drawn if the folder has none
    is_split_given: bool
    problems: tuple[Problem, ...]
    classes: tuple[str, ...]
    duplicates: tuple[tuple[int, int], ...]
    usage: tuple[Usage, ...]
    commands: tuple[str, ...]  # to type next

    @property
    def is_fit(self) -> bool:
        """Return whether the folder can be trained on as it is."""
        return not errors_of(self.problems)


def check_data(
    path: str | Path,
    *,
    size: int | None = None,
    classes: Sequence[str] = (),
    group: str | None = None,
    unused: Unused = "error",
    allow_outside: bool = False,
) -> Checkup:
    """Look at every case of a folder or table; ``size`` is that of training, if not the files'."""
    root = Path(path).expanduser()
    check_size(size)
    are_volumes = holds_volumes(root)
    options = Options(  # at the size of the files, volumes whole and with their values
        classes=tuple(classes),
        volumes="whole" if are_volumes else None,
        group=group,
        unused=unused,
        allow_outside=allow_outside,
    )
    listing, problems = list_cases(root, options)
    if are_volumes and not classes and listing.options.classes == DEFAULT_CLASSES:
        listing = replace(listing, options=replace(listing.options, classes=ANY_CLASS))
    has_people = any(case.pair.annotators for case in listing.cases)
    listing = listing.take([listing.with_masks_of(case) for case in listing.cases])
    good: list[Listed] = []
    facts: list[Facts] = []
    spoilt: list[tuple[Pair, str]] = []
    for case, found in zip(listing.cases, _look(listing), strict=True):
        if isinstance(found, Facts):
            good.append(case)
            facts.append(found)
            problems += [Problem("note", kind, case.name, text) for kind, text in found.notes]
        else:
            problems.append(found)
            spoilt.append((case.pair, found.kind))
    given = as_test(good)
    split = split_cases([home(c) for c in good], [c.group for c in good], given)
    pairs = find_duplicates([f.print for f in facts])
    names = _settle_classes(listing.options.classes, facts)
    cases = [case.name for case in good]
    problems += _judge_masks(cases, facts)
    if are_volumes:
        problems += _judge_classes(names, cases, facts)
    elif size is None:
        problems += _judge_sizes(cases, facts)
    problems += _judge_pairs(cases, split, pairs) + _judge_set(split)
    keys = [f"data.classes={json.dumps(names, separators=(',', ':'))}"] if len(names) > 1 else []
    keys += [f"data.group={group}"] if group else []
    keys += ["data.unused=allow"] if unused == "allow" else []
    keys += ["data.allow_outside=true"] if allow_outside else []
    simulated = 0  # sites, where no folder names any
    if not (has_people or all(map(home, good))):
        simulated = max(2, min(_MOST_SITES, split.count("train") // _SITE_CASES))
    return Checkup(
        root=root,
        cases=tuple(good),
        facts=tuple(facts),
        split=tuple(split),
        is_split_given=all(given),
        problems=tuple(sorted(set(problems))),
        classes=names,
        duplicates=tuple(pairs),
        usage=tuple(without(listing.usage, spoilt)),
        commands=tuple(command_lines(root, facts, keys, size, simulated) if facts else ()),
    )


def _look(listing: Listing) -> Iterable[Facts | Problem]:
    """Return what is known of every case; few are in memory at a time."""

    def look(case: Listed) -> Facts | Problem:
        try:
            return look_at(listing, case)
        except CaseError as error:
            return error.problem(case.name)

    batch = 1 if listing.options.whole else _BATCH
    return ordered_map(look, listing.cases, None, way="threads", batch=batch)


def _settle_classes(names: Sequence[str], facts: Sequence[Facts]) -> tuple[str, ...]:
    """Return the classes as named, or else as the masks of volumes have them."""
    if tuple(names) != ANY_CLASS:
        return tuple(names)
    values = {value for fact in facts for value in fact.values if value}
    most = max((value for value in values if value <= _MOST_CLASSES), default=1)
    return DEFAULT_CLASSES if len(values) < 2 or most == 1 else ANY_CLASS[:most]


def _judge_classes(
    classes: Sequence[str], names: Sequence[str], facts: Sequence[Facts]
) -> list[Problem]:
    held = {value for fact in facts for value in fact.values}
    problems = [
        Problem("note", "class in no mask", ".", f"no mask holds {name} (value {value})")
        for value, name in enumerate(classes, start=1)
        if len(classes) > 1 and value not in held
    ]
    for name, fact in zip(names, facts, strict=True):
        drawn = fact.values - {0}
        several = fact.is_cut or max(drawn, default=0) > len(classes)
        if len(drawn) > 1 if len(classes) == 1 else several:
            other = ", ".join(map(str, sorted(fact.values)[:8]))
            other = "values above 255 or between" if fact.is_cut else other
            text = f"expected 0 to {len(classes)} (one per class), found {other}: relabel the mask"
            problems.append(Problem("error", "mask values", name, text))
    return problems


def _judge_masks(names: Sequence[str], facts: Sequence[Facts]) -> list[Problem]:
    told = {
        0.0: ("empty mask", "no pixel is foreground"),
        1.0: ("full mask", "every pixel is foreground"),
    }
    problems = [
        Problem("note", told[fact.share][0], name, told[fact.share][1])
        for name, fact in zip(names, facts, strict=True)
        if fact.share in told
    ]
    if facts and len(problems) == len(facts):
        text = "no mask has a border: there is nothing to learn"
        problems.append(Problem("error", "all masks empty or full", ".", text))
    return problems


def _judge_sizes(names: Sequence[str], facts: Sequence[Facts]) -> list[Problem]:
    if not facts:
        return []
    usual = Counter(fact.shape for fact in facts).most_common(1)[0][0]
    problems = []
    for name, fact in zip(names, facts, strict=True):
        if min(fact.shape) < MIN_SIZE:
            text = f"{by(fact.shape)}: add --size {MIN_SIZE}"
            problems.append(Problem("error", "image too small", name, text))
        if fact.shape != usual:
            text = f"{by(fact.shape)}, most have {by(usual)}: training needs one size: add --size N"
            problems.append(Problem("error", "sizes differ between cases", name, text))
    return problems


def _judge_pairs(
    names: Sequence[str], split: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> list[Problem]:
    problems = []
    for i, j in pairs:
        apart = split[i] != split[j]
        kind = "near-duplicates across train and test" if apart else "near-duplicates"
        text = f"looks like {names[j]}"
        if apart:
            text += ": remove one, or give both one group (data.group, the column group of a table)"
        problems.append(Problem("note", kind, names[i], text))
    return problems


def _judge_set(split: Sequence[str]) -> list[Problem]:
    if not split:
        return [Problem("error", "no cases", ".", "no case can be read")]
    levels: dict[str, Level] = {"train": "error", "test": "note"}
    return [
        Problem(level, f"no {side} cases", ".", f"the folder has no {side} cases")
        for side, level in levels.items()
        if side not in split
    ]
