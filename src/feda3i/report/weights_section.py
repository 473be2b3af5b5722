"""Who had how much say: weights by site and stage as coloured cells, and why, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from feda3i.quality.say import why
from feda3i.quality.weights import shares
from feda3i.report import html
from feda3i.report.compare import Group, part, seed_by_seed
from feda3i.report.html import Cell, Column, Html, Section
from feda3i.report.run_facts import RunFacts


def weights_section(groups: Sequence[Group]) -> Section:
    """Return the weights of every group that has any of its own."""
    weighed = [(group, [run for run in group.counted if run.weights]) for group in groups]
    plain = ", ".join(group.title for group, runs in weighed if not runs)
    heats = [seed_by_seed(group, runs, _heat) for group, runs in weighed if runs]
    return Section(
        "weights",
        "Who has how much say",
        part("weights", heats, plain),
        "The part of each site in the average of the last round, stage by stage from input to "
        "output. 1.0 is an equal part: what a site would have if all counted the same. Green is "
        "more than that, purple less.",
        "Weights",
    )


def _heat(run: RunFacts) -> Html:
    sites = sorted(run.weights, key=lambda site: (-run.weights[site][-1], site))
    count, width = len(sites), len(run.weights[sites[0]])
    stages = run.stages if len(run.stages) == width else [f"stage {k + 1}" for k in range(width)]
    stages = ["all stages"] if width == 1 else stages
    mu = run.mu
    columns = [Column("site"), *([Column("true mu, px", "number", 1)] if mu else [])]
    columns += [Column(stage, "number", 1) for stage in stages]
    columns += [Column("why")]
    reasons = _reasons(run)
    rows: list[list[object]] = []
    for site in sites:
        cells = [
            Cell(f"{count * w:.1f}", count * w, style=html.heat(count * w))
            for w in run.weights[site]
        ]
        head: list[object] = [html.name(site), *([mu.get(site)] if mu else [])]
        rows.append([*head, *cells, Cell(reasons[site], class_="why")])
    caption = f"Weight times the number of sites ({count}), most say in the last stage first"
    return html.table(caption, columns, rows, sites=sites, kind="heat")


def _reasons(run: RunFacts) -> dict[str, str]:
    """Return one plain sentence for every site: its say in the last stage, and why."""
    cases = run.cases
    counts = [cases.get(site, 0) for site in run.weights]
    size = shares(counts) if sum(counts) else [1 / len(counts)] * len(counts)
    rating = run.ratings[-1][1] if run.ratings else None
    found = {}
    for (site, row), share in zip(run.weights.items(), size, strict=True):
        reason = why(rating, site) if rating is not None else f"as {run.method} weighs it"
        words = f"{100 * row[-1]:.1f} % of the say for {100 * share:.1f} % of the cases"
        found[site] = f"{words}: {reason}."
    return found
