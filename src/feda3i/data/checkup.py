"""Is a folder fit for training? Looks at every case once, keeps no pixel."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from feda3i.core.format import by
from feda3i.data.case_facts import Facts, look_at
from feda3i.data.division import as_test, home
from feda3i.data.partition import split_cases
from feda3i.pool import ordered_map
from feda3i.reading.listing import Listing, holds_volumes, list_cases
from feda3i.reading.match import Pair
from feda3i.reading.options import DEFAULT_CLASSES, MIN_SIZE, Options, Unused
from feda3i.reading.problems import CaseError, Problem, errors_of
from feda3i.reading.usage import Fates

_BATCH = 8  # cases that a worker takes at a time
_MOST_SITES, _SITE_CASES = 12, 8  # simulated sites, and training cases of one
_MOST_CLASSES = 32  # mask values above this are strays unless their classes are named
# The largest patch, slice and picture: minutes, not hours, without a GPU.
MOST_VOXELS, MOST_PIXELS, MOST_SIDE = 64**3, 256**2, 256
_ANY_CLASS = tuple(f"class-{value}" for value in range(1, 256))  # until it is known which there are


@dataclass(frozen=True)
class Checkup:
    """All findings; ``feda3i.data.check_report`` turns them into text."""

    root: Path
    cases: tuple[Pair, ...]
    facts: tuple[Facts, ...]
    split: tuple[str, ...]  # of every case; drawn if the folder has none
    is_split_given: bool
    problems: tuple[Problem, ...]
    classes: tuple[str, ...]
    duplicates: tuple[tuple[int, int], ...]  # cases of the same image
    fates: Fates
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
        listing = replace(listing, options=replace(listing.options, classes=_ANY_CLASS))
    has_people = any(case.annotators for case in listing.cases)
    listing = listing.take([listing.with_masks_of(case) for case in listing.cases])
    good: list[Pair] = []
    facts: list[Facts] = []
    fates = dict(listing.fates)
    for case, found in zip(listing.cases, _look(listing), strict=True):
        if isinstance(found, Facts):
            good.append(case)
            facts.append(found)
            problems += [Problem("note", kind, case.name, text) for kind, text in found.notes]
        else:
            problems.append(found)
            fates |= {file.name: found.kind for file in case.files}
    given = as_test(good)
    split = split_cases([home(c) for c in good], [c.group for c in good], given)
    first: dict[str, int] = {}
    seen = [first.setdefault(fact.digest, place) for place, fact in enumerate(facts)]
    pairs = [(i, j) for j, i in enumerate(seen) if i != j]
    names, judged = listing.options.classes, [case.name for case in good]
    most = None  # the highest value that a mask may hold, where reading did not know it
    if names == _ANY_CLASS:
        names = _classes_of(facts)
        most = len(names)
    problems += _judge_cases(judged, facts, most, one_size=size is None and not are_volumes)
    for i, j in pairs:
        kind, text = "same image", f"also in {judged[j]}"
        if split[i] != split[j]:
            kind += " across train and test"
            text += ": remove one, or give both one group (data.group, the column group of a table)"
        problems.append(Problem("note", kind, judged[i], text))
    if not good:
        problems.append(Problem("error", "no cases", ".", "no case can be read"))
    elif "train" not in split:
        problems.append(Problem("error", "no train cases", ".", "there is nothing to train on"))
    elif "test" not in split:
        problems.append(Problem("note", "no test cases", ".", "there is nothing to score"))
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
        fates=fates,
        commands=tuple(_command_lines(root, facts, keys, size, simulated) if facts else ()),
    )


def _look(listing: Listing) -> Iterable[Facts | Problem]:
    """Return what is known of every case; few are in memory at a time."""

    def look(case: Pair) -> Facts | Problem:
        try:
            return look_at(listing, case)
        except CaseError as error:
            return error.problem(case.name)

    batch = 1 if listing.options.whole else _BATCH
    return ordered_map(look, listing.cases, batch=batch)


def _classes_of(facts: Sequence[Facts]) -> tuple[str, ...]:
    values = {value for fact in facts for value in fact.values if value}
    most = max((value for value in values if value <= _MOST_CLASSES), default=1)
    return DEFAULT_CLASSES if len(values) < 2 or most == 1 else _ANY_CLASS[:most]


def _judge_cases(
    names: Sequence[str], facts: Sequence[Facts], classes: int | None, one_size: bool
) -> Iterator[Problem]:
    usual = Counter(fact.shape for fact in facts).most_common(1)
    for name, fact in zip(names, facts, strict=True):
        drawn = fact.values - {0}
        if fact.share in (0, 1):
            text = f"{'no' if fact.share == 0 else 'every'} pixel is foreground"
            yield Problem("note", f"{'empty' if fact.share == 0 else 'full'} mask", name, text)
        if classes and (len(drawn) > 1 if classes == 1 else max(drawn, default=0) > classes):
            other = ", ".join(map(str, sorted(fact.values)[:8]))
            text = f"expected 0 to {classes} (one per class), found {other}: relabel the mask"
            yield Problem("error", "mask values", name, text)
        if one_size and min(fact.shape) < MIN_SIZE:
            text = f"{by(fact.shape)}: add --size {MIN_SIZE}"
            yield Problem("error", "image too small", name, text)
        if one_size and fact.shape != usual[0][0]:
            text = f"{by(fact.shape)}, most have {by(usual[0][0])}: training needs one size: "
            yield Problem("error", "sizes differ between cases", name, f"{text}add --size N")
    if facts and all(fact.share in (0, 1) for fact in facts):
        text = "no mask has a border: there is nothing to learn"
        yield Problem("error", "all masks empty or full", ".", text)


def suggest_patch(sides: Sequence[float], most: int = MOST_VOXELS) -> tuple[int, ...]:
    """Return a patch of sides divisible by 16 that fits into the median case.

    >>> suggest_patch((36, 50, 35)), suggest_patch((80, 512, 512))
    ((32, 48, 32), (64, 64, 64))
    """
    patch = [max(MIN_SIZE, int(side) // MIN_SIZE * MIN_SIZE) for side in sides]
    while np.prod(patch) > most:
        patch[int(np.argmax(patch))] -= MIN_SIZE
    if max(patch) == MIN_SIZE:
        # The network halves four times, and instance normalisation needs two values then.
        patch[int(np.argmax(sides))] = 2 * MIN_SIZE
    return tuple(patch)


def _command_lines(
    root: Path, facts: Sequence[Facts], options: Sequence[str], size: int | None, sites: int
) -> list[str]:
    """Return what to type; ``sites`` are to be simulated, with 0 the folders are the sites."""
    if len(facts[0].shape) == 3:
        recipe, fitting = "own-volumes", _volume_options(facts, size)
    else:
        shortest = float(np.median([min(fact.shape) for fact in facts]))
        fits = min(MOST_SIDE, max(MIN_SIZE, int(shortest) // MIN_SIZE * MIN_SIZE))
        recipe, fitting = "own", [f"data.size={size or fits}"]
    simulated = ["data.partition=iid", f"data.sites={sites}"] if sites else []
    run = ["feda3i", "run", recipe, f"data={root}", *simulated, *fitting, *options]
    audit = shlex.join(["feda3i", "audit", str(root), *fitting, *options])
    needed = "needs one folder per site (SITE/images, SITE/masks)"
    return [f"run    {shlex.join(run)}", f"audit  {needed if sites else audit}"]


def _volume_options(facts: Sequence[Facts], size: int | None) -> list[str]:
    """Return the options for patches in space, or in slices if volumes are too thin for that."""
    sides = np.median([(size,) * 3 if size else fact.shape for fact in facts], axis=0).tolist()
    thin = int(np.argmin(sides))
    if sides[thin] >= MIN_SIZE:
        cube = [f"data.size={size}"] if size else []
        return [*cube, _patch(suggest_patch(sides))]
    plane = suggest_patch([side for k, side in enumerate(sides) if k != thin], most=MOST_PIXELS)
    # Cases are (slice, row, column), files the other way round.
    axis = [] if thin == 0 else [f"data.axis={2 - thin}"]
    return ["data.volumes=slices", *axis, _patch(plane), "train.batch=16", "train.epochs=1"]


def _patch(sides: Sequence[int]) -> str:
    return f"train.patch={json.dumps(sides, separators=(',', ':'))}"
