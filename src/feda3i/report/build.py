"""From run folders to one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from feda3i.files import write_file
from feda3i.report import html
from feda3i.report.compare import group_runs
from feda3i.report.html import Section
from feda3i.report.page_sections import (
    headline,
    learning,
    main_cards,
    redrawn_masks,
    sites,
    weights,
    what_was_run,
    wire,
)
from feda3i.report.remarks import warning_notices
from feda3i.report.runs import RunFacts
from feda3i.report.survey_section import survey_section

NAME = "report.html"


def report_page(runs: Sequence[RunFacts], gallery: Section | None = None) -> str:
    """Return the report of runs as an HTML file; without a gallery it holds no pixels."""
    groups = group_runs(runs)
    sections = [
        headline(groups),
        learning(groups),
        survey_section(groups),
        weights(groups),
        sites(groups),
        redrawn_masks(groups),
        gallery,
        wire(groups),
        what_was_run(groups),
    ]
    top = html.join([main_cards(groups), warning_notices(groups)])
    return html.page(
        _title(runs, list(dict.fromkeys(group.method for group in groups))),
        [one for one in sections if one is not None],
        subtitle=_subtitle(runs),
        top=top,
        filter_sites=True,
    )


def write_report(runs: Sequence[RunFacts], target: Path, gallery: Section | None = None) -> None:
    """Write the report of runs; with pictures, only this user may read the file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Names of files need not be text; what cannot be written is shown as such.
    data = report_page(runs, gallery).encode("utf-8", "backslashreplace")
    write_file(target, data, durable=False, mode=0o666 if gallery is None else 0o600)


def _title(runs: Sequence[RunFacts], methods: Sequence[str]) -> str:
    if len(runs) == 1:
        return runs[0].recipe.title.strip() or runs[0].name
    shown = ", ".join(methods[:4]) + (f" and {len(methods) - 4} more" if len(methods) > 4 else "")
    return f"{shown} compared" if len(methods) > 1 else f"{shown}, {len(runs)} runs"


def _subtitle(runs: Sequence[RunFacts]) -> str:
    seeds = sorted({run.recipe.seed for run in runs})
    data = sorted({run.recipe.data.name for run in runs})
    sites = max(len(run.cases) for run in runs)
    return (
        f"{', '.join(data)}, {sites} site{'' if sites == 1 else 's'}, "
        f"{max(len(run.rounds) for run in runs)} rounds, {'seed' if len(seeds) == 1 else 'seeds'} "
        f"{', '.join(map(str, seeds))}"
    )
