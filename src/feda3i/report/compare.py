"""Runs beside each other: those that differ in their seed alone are one group.

A group is one method in one setting. Names say what differs between groups and nothing else.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feda3i.recipe.sections import without_machine
from feda3i.report.html import Html, Section, block
from feda3i.report.runs import Row, RunFacts
from feda3i.values import flat_items

REFERENCES = {
    "clean": "trains on perfect masks: a ceiling",
    "central": "pools all cases: no federation",
    "local": "every site alone: no federation",
}
"""Methods that no consortium could run, or would not; they are rows to compare with."""
LAST = 5  # scored rounds at the end that are averaged against the jitter of a single one


@dataclass(frozen=True)
class Group:
    """Runs of one method in one setting, by seed."""

    method: str
    label: str  # the method with the options in which it differs from other groups
    setting: str  # what else differs from other groups; empty if there is one setting
    runs: tuple[RunFacts, ...]  # in order of their seeds

    @property
    def counted(self) -> tuple[RunFacts, ...]:
        """Return the runs behind the figures: the finished ones, if there are any."""
        return tuple(run for run in self.runs if run.state == "done") or self.runs

    @property
    def title(self) -> str:
        """Return a name that is unique in the report."""
        return f"{self.label} ({self.setting})" if self.setting else self.label

    @property
    def dice(self) -> OverSeeds:
        """Return the steady Dice over seeds."""
        return over_seeds(map(steady_dice, self.counted))


@dataclass(frozen=True)
class OverSeeds:
    """Mean and standard deviation over seeds; the second needs two."""

    mean: float | None
    deviation: float | None
    values: tuple[float, ...]


def over_seeds(values: Iterable[float | None]) -> OverSeeds:
    """Return mean and sample standard deviation of the values that are not ``None``."""
    known = tuple(value for value in values if value is not None)
    mean = statistics.fmean(known) if known else None
    return OverSeeds(mean, statistics.stdev(known) if len(known) > 1 else None, known)


def group_runs(runs: Sequence[RunFacts]) -> list[Group]:
    """Return the groups by setting: FedAvg first, then methods, then reference rows."""
    alike: dict[tuple[str, str], list[RunFacts]] = {}
    for run in runs:
        values = without_machine(run.recipe.shared())
        method = _key(values.pop("method"))
        apart = ("methods", "seed", "title")
        setting = _key({key: value for key, value in values.items() if key not in apart})
        alike.setdefault((setting, method), []).append(run)
    settings = _labels(list(dict.fromkeys(setting for setting, _ in alike)))
    methods = _labels(list(dict.fromkeys(method for _, method in alike)), first="name")
    groups = []
    for (setting, method), members in alike.items():
        members.sort(key=lambda run: (run.recipe.seed, str(run.path)))
        name = members[0].method
        groups.append(Group(name, methods[method] or name, settings[setting], tuple(members)))
    order = list(settings.values())
    first = {"fedavg": 0, **dict.fromkeys(REFERENCES, 2)}
    return sorted(groups, key=lambda g: (order.index(g.setting), first.get(g.method, 1)))


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _labels(keys: Sequence[str], first: str = "") -> dict[str, str]:
    """Return for each table what sets it apart from the others, in words."""
    tables = {key: dict(flat_items(json.loads(key))) for key in keys}
    named = {key: str(table.get(first, "")) for key, table in tables.items()}
    labels = {}
    for key, table in tables.items():
        rivals = [other for k, other in tables.items() if k != key and named[k] == named[key]]
        names = sorted({n for other in rivals for n in (*table, *other)})
        apart = [n for n in names if any(o.get(n) != table.get(n) for o in rivals)]
        words = ", ".join(f"{n} = {table.get(n, 'default')}" for n in apart)
        labels[key] = f"{named[key]} ({words})" if first and words else words or named[key]
    return labels


def seed_by_seed(group: Group, runs: Sequence[RunFacts], draw: Callable[[RunFacts], Html]) -> Html:
    """Return what is drawn of a group's runs: the first under a heading, the others folded."""
    return part("by_seed", group.title, [(run.recipe.seed, draw(run)) for run in runs])


def part(name: str, *given: Any) -> Html:
    """Return a part of a section: a macro of ``report.html.j2``."""
    return block(name, *given, file="report.html.j2")


def section(key: str, title: str, menu: str, **values: Any) -> Section:
    """Return a section: its body and introduction are macros of ``report.html.j2``."""
    body, intro = part(key, values), part(f"{key}_intro", values)
    return Section(key, title, body, intro.strip(), menu)


def last_score(run: RunFacts, score: str) -> float | None:
    """Return a score of the last round that has it."""
    found = _scores(run, score)
    return found[-1] if found else None


def steady_dice(run: RunFacts) -> float | None:
    """Return the mean Dice of the last scored rounds."""
    found = _scores(run, "dice")[-LAST:]
    return statistics.fmean(found) if found else None


def steady_words(groups: Sequence[Group]) -> str:
    """Return of which rounds ``steady_dice`` is the mean: there may be fewer than ``LAST``."""
    counts = {len(_scores(run, "dice")) for group in groups for run in group.counted} - {0}
    least, most = min(counts, default=0), min(max(counts, default=0), LAST)
    if least >= LAST:
        return f"the mean of the last {LAST} scored rounds"
    if least < most:
        return f"the mean of the last {LAST} scored rounds, or of as many as there are"
    return "that of the only scored round" if most == 1 else f"the mean of the {most} scored rounds"


def _scores(run: RunFacts, score: str) -> list[float]:
    return [found for one in run.rounds if (found := getattr(one, score)) is not None]


def site_dice(run: RunFacts) -> tuple[dict[str, float], str]:
    """Return the Dice of the last model by site, and on which cases.

    Test cases are taken where they belong to sites; otherwise those that sites trained on.
    """
    sites = run.cases
    by_test = _by_site(run.test, sites)
    if len(by_test) > 1:
        return by_test, "test cases of each site"
    truth = "clean masks" if run.mu else "masks as given"
    return _by_site(run.train, sites), f"training cases of each site, against their {truth}"


def _by_site(rows: Sequence[Row], sites: Mapping[str, int]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        # Over a network a site sends means, one row per class, under its own name.
        site = row.get("site") or (row["case"] if row["case"] in sites else None)
        if site is not None and row.get("dice") is not None:
            found.setdefault(site, []).append(row["dice"])
    return {site: statistics.fmean(values) for site, values in sorted(found.items())}


def gain(group: Group, groups: Sequence[Group]) -> OverSeeds:
    """Return the gain of the steady Dice over FedAvg of the same setting and seed, in points."""
    rivals = [g for g in groups if g.setting == group.setting and g.method == "fedavg"]
    if group.method == "fedavg" or not rivals:
        return OverSeeds(None, None, ())
    base = {run.recipe.seed: steady_dice(run) for run in rivals[0].counted}
    pairs = [(steady_dice(run), base.get(run.recipe.seed)) for run in group.counted]
    return over_seeds(100 * (a - b) for a, b in pairs if a is not None and b is not None)
