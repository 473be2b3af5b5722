"""The site doctor: is a folder fit for training? Looks at every case once, keeps no pixel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from feda3i.data.case_facts import ANY_CLASS, Facts, SiteFacts, look_at, site_facts
from feda3i.data.division import as_test, home
from feda3i.data.duplicates import find_duplicates
from feda3i.data.partition import split_cases
from feda3i.data.round_cost import EPOCHS, Estimate, estimate
from feda3i.data.run_lines import picture_lines, shared_options, volume_lines
from feda3i.data.volume_summary import judge_classes, judge_scales, settle_classes
from feda3i.pool import ordered_map
from feda3i.reading.listing import Listed, Listing, holds_volumes, list_cases
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE, Options, check_size
from feda3i.reading.pairs import Pair
from feda3i.reading.problems import CaseError, Level, Problem, by, errors_of
from feda3i.reading.usage import Unused, Usage, without

WIDTH = 16
VOLUME_WIDTH, VOLUME_EPOCHS = 8, 3
_BATCH = 8  # cases that a worker takes at a time
_MOST_SITES, _SITE_CASES = 12, 8  # simulated sites, and training cases of one


@dataclass(frozen=True)
class Checkup:
    """All findings; ``feda3i.data.check_report`` turns them into text and JSON."""

    root: Path
    cases: tuple[Listed, ...]
    facts: tuple[Facts, ...]
    split: tuple[str, ...]  # of every case; drawn if the folder has none
    is_split_given: bool
    problems: tuple[Problem, ...]
    classes: tuple[str, ...]
    duplicates: tuple[tuple[int, int], ...] = ()
    cost: Estimate | None = None
    channels: int = 1
    usage: tuple[Usage, ...] = ()
    are_volumes: bool = False
    commands: tuple[str, ...] = ()  # to type next

    @property
    def is_fit(self) -> bool:
        """Return whether the folder can be trained on as it is."""
        return not errors_of(self.problems)

    def side_by_side(self) -> dict[str, SiteFacts]:
        """Return foreground and objects of every folder (site or source), by name."""
        unit = "mm" if self.facts and all(fact.spacing for fact in self.facts) else "px"
        rows: dict[str, list[int]] = defaultdict(list)
        for place, case in enumerate(self.cases):
            rows[home(case) or "all"].append(place)
        return {
            name: site_facts([self.split[i] for i in own], [self.facts[i] for i in own], unit)
            for name, own in sorted(rows.items())
        }


def check_data(
    path: str | Path,
    *,
    size: int | None = None,
    classes: Sequence[str] = (),
    group: str | None = None,
    unused: Unused = "error",
    allow_outside: bool = False,
    width: int | None = None,
    measure: bool = True,
    workers: int | None = None,
) -> Checkup:
    """Look at every case of a folder or table, and report what is wrong with it.

    Parameters
    ----------
    size
        Side in pixels that training will use; without it all cases must have one size.
    classes, group, unused
        As for loading.
    width
        Of the U-Net that the estimate of time and traffic assumes; by default, like the epochs per
        round, that of the paper for pictures, of the recipe ``own-volumes`` for volumes.
    measure
        Train a few steps to tell minutes per round.
    workers
        Threads; one per core by default.
    """
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
    for case, found in zip(listing.cases, _look(listing, workers), strict=True):
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
    names = settle_classes(listing.options.classes, facts)
    cases = [case.name for case in good]
    problems += _judge_masks(cases, facts)
    if are_volumes:
        problems += judge_classes(names, cases, facts) + judge_scales(cases, facts)
    elif size is None:
        problems += _judge_sizes(cases, facts)
    problems += _judge_pairs(cases, split, pairs) + _judge_set(split)
    keys = [f"data.group={group}"] if group else []
    keys += ["data.unused=allow"] if unused == "allow" else []
    keys += ["data.allow_outside=true"] if allow_outside else []
    shared, simulated = shared_options(names, keys), 0 if has_people else _simulated(good, split)
    commands: list[str] = []
    shape: tuple[int, ...] = facts[0].shape if facts and size is None else (size or 0,) * 2
    if facts and are_volumes:
        commands, shape = volume_lines(root, facts, shared, size, simulated)
    elif facts:
        commands = picture_lines(root, facts, shared, size, simulated)
    deep = max((fact.channels for fact in facts), default=1)
    cost = None
    if measure and facts:
        usual, epochs = (VOLUME_WIDTH, VOLUME_EPOCHS) if are_volumes else (WIDTH, EPOCHS)
        cost = estimate(shape, deep, len(names), width=width or usual, epochs=epochs)
    return Checkup(
        root=root,
        cases=tuple(good),
        facts=tuple(facts),
        split=tuple(split),
        is_split_given=all(given),
        problems=tuple(sorted(set(problems))),
        classes=names,
        duplicates=tuple(pairs),
        cost=cost,
        channels=deep,
        usage=tuple(without(listing.usage, spoilt)),
        are_volumes=are_volumes and bool(facts),
        commands=tuple(commands),
    )


def _simulated(cases: Sequence[Listed], split: Sequence[str]) -> int:
    """Return how many sites to simulate where no folder names any; 0 if the folders are sites."""
    if all(home(case) for case in cases):
        return 0
    return max(2, min(_MOST_SITES, list(split).count("train") // _SITE_CASES))


def _look(listing: Listing, workers: int | None) -> Iterable[Facts | Problem]:
    """Return what is known of every case; few are in memory at a time."""

    def look(case: Listed) -> Facts | Problem:
        try:
            return look_at(listing, case)
        except CaseError as error:
            return error.problem(case.name)

    batch = 1 if listing.options.whole else _BATCH
    return ordered_map(look, listing.cases, workers, way="threads", batch=batch)


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
        if len(fact.shape) == 2 and min(fact.shape) < MIN_SIZE:
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
