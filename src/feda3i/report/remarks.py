"""What a reader must know before trusting the figures."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from feda3i.report import html
from feda3i.report.compare import Group
from feda3i.report.html import Html
from feda3i.report.runs import RunFacts

FEW_SITES = 10  # rated sites below which two Gaussians are more often a guess than a finding
CEILING = 0.4  # of the weight: a site that has more dominates
SETTLED = 0.05  # part of itself that the training loss may lose in the two rounds before a survey
MOST = 12  # remarks of a kind that are shown one by one


def warning_notices(groups: Sequence[Group]) -> Html:
    """Return all remarks: what is broken first, then what to be careful with."""
    runs = [run for group in groups for run in group.runs]
    bad = [f"{run.name}: {problem}" for run in runs for problem in run.problems]
    careful = [line for group in groups for line in _merged(group)]
    first = html.notice("bad", "Not as it should be", _some(bad))
    return html.join(
        [first, html.notice("warn", "Read with care", _some([*careful, *_between(groups)]))]
    )


def _merged(group: Group) -> list[str]:
    """Return the remarks on a group's runs; those that differ only in numbers appear once."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for run in group.runs:
        for remark in (*run.notes, *remarks(run)):
            alike.setdefault(re.sub(r"\d+", "0", remark), []).append((run.name, remark))
    lines = []
    for (first, remark), *rest in alike.values():
        others = sorted({name for name, _ in rest} - {first})
        lines.append(f"{first}: {remark}" + (f" (also {', '.join(others)})" if others else ""))
    return lines


def _some(lines: list[str]) -> list[object]:
    unique = list(dict.fromkeys(lines))
    if len(unique) <= MOST:
        return [*unique]
    rest = html.folded(f"and {len(unique) - MOST} more", html.block("bullets", unique[MOST:]))
    return [*unique[:MOST], rest]


def remarks(run: RunFacts) -> Iterator[str]:
    """Yield what makes the figures of a run less certain than they look."""
    yield from _absent(run)
    if not run.ratings:
        return
    number, rating = run.ratings[-1]
    for part in rating.parts:
        labels, groups = part.grouping.labels, part.grouping
        counts = Counter(labels)
        rated = len(labels) - counts["unrated"]
        if rated < FEW_SITES:
            yield (
                f"few sites: two groups of {rated} rated sites are a guess; redrawn masks "
                f"(method=redraw) suit few sites"
            )
        if counts["all"]:
            yield f"degenerate groups: {groups.reason}"
        alone = [label for label in ("larger", "smaller") if counts[label] == 1]
        if alone and rated > 2:
            yield (
                f"degenerate groups: one site alone draws {alone[0]} and has that group's whole "
                f"weight"
            )
        if counts["unrated"]:
            yield f"{counts['unrated']} of {len(labels)} sites could not be rated"
    yield from _warm_up(run, number)
    for site, row in run.weights.items():
        if row[-1] > CEILING and len(run.weights) > 2:
            yield f"{site} has {100 * row[-1]:.0f} % of the weight in the last stage"


def _absent(run: RunFacts) -> Iterator[str]:
    missed = Counter(site for one in run.rounds for site in one.missing)
    reasons = {site: why for one in run.rounds for site, why in one.missing.items()}
    for site, count in missed.most_common(5):
        yield (
            f"{site} did not answer in {count} of {len(run.rounds)} rounds; last reason: "
            f"{reasons[site]}"
        )
    if len(missed) > 5:
        yield f"{len(missed) - 5} more sites missed rounds"
    for site, why in list(run.survey_missing.items())[:5]:
        yield f"{site} did not answer the survey: {why}"


def _warm_up(run: RunFacts, number: int) -> Iterator[str]:
    """Yield whether the training loss was still falling when sites were surveyed."""
    if any(one.t1_reason == "half of the run" for one in run.rounds):
        yield (
            "unconverged warm-up: the loss had not settled by half of the run, when sites were "
            "surveyed"
        )
        return
    losses = [one.loss for one in run.rounds if one.round < number and one.loss is not None]
    if len(losses) > 2 and losses[-3] > 0:
        fell = (losses[-3] - losses[-1]) / losses[-3]
        if fell > SETTLED:
            yield (
                f"unconverged warm-up: the training loss still fell by {100 * fell:.0f} % in the "
                f"two rounds before the survey in round {number}; a later one may see more clearly"
            )


def _between(groups: Sequence[Group]) -> Iterator[str]:
    """Yield what makes runs hard to compare."""
    runs = [run for group in groups for run in group.runs]
    hashed = {
        (group.setting, run.recipe.seed, run.data["sha256"])
        for group in groups
        for run in group.runs
        if run.data.get("sha256")
    }
    if len(hashed) > len({(setting, seed) for setting, seed, _ in hashed}):
        yield (
            "runs of the same setting and seed saw different data (see their SHA-256): do not "
            "compare them"
        )
    for what, key in (("versions of feda3i", "feda3i"), ("kinds of processor", "processor")):
        found = {str(run.manifest[key]) for run in runs}
        if len(found) > 1:
            yield f"runs come from {len(found)} {what}: small differences between them mean nothing"
    if len(groups) > 1 and all(len(group.counted) == 1 for group in groups):
        yield "one seed for each method: a point or two may be chance; run more seeds"
