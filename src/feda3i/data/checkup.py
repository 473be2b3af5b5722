"""The site doctor: is a folder fit for training? Looks at every case once, keeps no pixel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from feda3i.data.case_facts import Facts, SiteFacts, case_facts, site_facts
from feda3i.data.division import as_test, home
from feda3i.data.duplicates import find_duplicates
from feda3i.data.orientation import judge_orientation
from feda3i.data.partition import split_cases
from feda3i.data.round_cost import EPOCHS, Estimate, estimate
from feda3i.data.run_lines import Suggestion, picture_lines, suggest
from feda3i.data.volume_look import ANY_CLASS, look_at_volume
from feda3i.data.volume_summary import judge_classes, judge_scales, settle_classes
from feda3i.pool import ordered_map
from feda3i.reading.listing import Listed, Listing, holds_volumes, list_cases
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE, Options, check_size
from feda3i.reading.pairs import Pair
from feda3i.reading.picture import mask_values
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
    size: int | None = None
    channels: int = 1
    usage: tuple[Usage, ...] = ()
    suggestion: Suggestion | None = None  # of volumes
    commands: tuple[str, ...] = ()

    @property
    def is_fit(self) -> bool:
        """Return whether the folder can be trained on as it is."""
        return not errors_of(self.problems)

    def side_by_side(self) -> dict[str, SiteFacts]:
        """Return foreground and objects of every folder (site or source), by name."""
        is_mm = bool(self.facts) and all(fact.spacing for fact in self.facts)
        unit = "mm" if is_mm else "px"
        rows: dict[str, list[int]] = defaultdict(list)
        for place, case in enumerate(self.cases):
            rows[home(case) or "all"].append(place)
        return {
            name: site_facts([self.split[i] for i in own], [self.facts[i] for i in own], unit)
            for name, own in sorted(rows.items())
        }

    def site_sizes(self) -> dict[str, int]:
        """Return training cases per folder (site or source)."""
        sides = zip(self.cases, self.split, strict=True)
        return dict(Counter(home(c) for c, side in sides if side == "train"))


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
    for case, found in _look(listing, workers):
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
    problems += _judge_masks(good, facts)
    problems += _judge_volumes(good, facts, names) if are_volumes else []
    problems += [] if are_volumes else _judge_sizes(good, facts, size)
    problems += _judge_pairs(good, split, pairs) + _judge_set(split)
    deep = max((f.channels for f in facts), default=1)
    advice, cost, commands = None, None, list[str]()
    keys = [f"data.group={group}"] if group else []
    keys += ["data.unused=allow"] if unused == "allow" else []
    keys += ["data.allow_outside=true"] if allow_outside else []
    simulated = 0 if has_people else _simulated(good, split)
    if are_volumes and facts:
        advice = suggest(root, facts, names, size=size, sites=simulated, more=keys)
        commands = advice.lines()
    elif facts:
        shapes = [fact.shape for fact in facts]
        commands = picture_lines(root, shapes, names, size=size, sites=simulated, more=keys)
    if measure and facts:
        shape = (size,) * len(facts[0].shape) if size else facts[0].shape
        shape = advice.trained_on if advice else shape
        usual, epochs = (WIDTH, EPOCHS) if advice is None else (VOLUME_WIDTH, VOLUME_EPOCHS)
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
        size=size,
        channels=deep,
        usage=tuple(without(listing.usage, spoilt)),
        suggestion=advice,
        commands=tuple(commands),
    )


def _simulated(cases: Sequence[Listed], split: Sequence[str]) -> int:
    """Return how many sites to simulate where no folder names any; 0 if the folders are sites."""
    if all(home(case) for case in cases):
        return 0
    return max(2, min(_MOST_SITES, list(split).count("train") // _SITE_CASES))


def _look(listing: Listing, workers: int | None) -> Iterator[tuple[Listed, Facts | Problem]]:
    """Return every case with its facts; few are in memory at a time."""

    def facts(case: Listed) -> Facts | Problem:
        try:
            if listing.options.whole:
                return look_at_volume(listing, case)
            raw = listing.read(case)
            if len(case.pair.images) == 1 and not case.pair.consensus:
                told = judge_orientation(raw, case.pair, listing.options)
                raw = replace(raw, notes=(*raw.notes, *told))
        except CaseError as error:
            return error.problem(case.name)
        files = [Path(entry.place).read_bytes() for entry in case.pair.masks]
        values = {value for data in files for value in mask_values(data)}
        return case_facts(raw, float(np.count_nonzero(raw.mask)) / raw.mask.size, values)

    batch = 1 if listing.options.whole else _BATCH
    found = ordered_map(facts, listing.cases, workers, way="threads", batch=batch)
    return zip(listing.cases, found, strict=True)


def _judge_masks(cases: Sequence[Listed], facts: Sequence[Facts]) -> list[Problem]:
    problems = []
    for case, fact in zip(cases, facts, strict=True):
        if fact.share == 0:
            problems.append(Problem("note", "empty mask", case.name, "no pixel is foreground"))
        elif fact.share == 1:
            problems.append(Problem("note", "full mask", case.name, "every pixel is foreground"))
    if facts and all(fact.share in (0, 1) for fact in facts):
        text = "no mask has a border: there is nothing to learn"
        problems.append(Problem("error", "all masks empty or full", ".", text))
    return problems


def _judge_volumes(
    cases: Sequence[Listed], facts: Sequence[Facts], classes: Sequence[str]
) -> list[Problem]:
    problems = judge_classes(classes, cases, facts) + judge_scales(cases, facts)
    for case, fact in zip(cases, facts, strict=True):
        found = fact.volume.findings if fact.volume is not None else ()
        problems += [Problem(level, kind, case.name, text) for level, kind, text in found]
    return problems


def _judge_sizes(
    cases: Sequence[Listed], facts: Sequence[Facts], size: int | None
) -> list[Problem]:
    sizes = Counter(fact.shape for fact in facts)
    if size is not None:
        return []
    small = [
        Problem("error", "image too small", case.name, f"{by(fact.shape)}: add --size {MIN_SIZE}")
        for case, fact in zip(cases, facts, strict=True)
        if len(fact.shape) == 2 and min(fact.shape) < MIN_SIZE
    ]
    if len(sizes) < 2:
        return small
    usual = sizes.most_common(1)[0][0]
    text = "training needs one size: add --size N"
    return small + [
        Problem(
            "error",
            "sizes differ between cases",
            case.name,
            f"{by(fact.shape)}, most have {by(usual)}: {text}",
        )
        for case, fact in zip(cases, facts, strict=True)
        if fact.shape != usual
    ]


def _judge_pairs(
    cases: Sequence[Listed], split: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> list[Problem]:
    problems = []
    for i, j in pairs:
        apart = split[i] != split[j]
        kind = "near-duplicates across train and test" if apart else "near-duplicates"
        text = f"looks like {cases[j].name}"
        if apart:
            text += ": remove one, or give both one group (data.group, the column group of a table)"
        problems.append(Problem("note", kind, cases[i].name, text))
    return problems


def _judge_set(split: Sequence[str]) -> list[Problem]:
    problems = []
    if not split:
        return [Problem("error", "no cases", ".", "no case can be read")]
    for side in ("train", "test"):
        if side not in split:
            text = f"the folder has no {side} cases"
            level: Level = "error" if side == "train" else "note"
            problems.append(Problem(level, f"no {side} cases", ".", text))
    return problems
