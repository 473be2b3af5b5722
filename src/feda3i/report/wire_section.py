"""What left each site: as a list, and in bytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feda3i.core.wire import ALWAYS
from feda3i.methods import REGISTRY
from feda3i.methods.base import card_of_class
from feda3i.report import html
from feda3i.report.compare import Group, part
from feda3i.report.html import Column, Html, Section
from feda3i.report.run_facts import RunFacts, table_of

NUMBER = 8
"""Bytes of a number on the wire."""
HEADER = 64 * 2**20
"""Longest header of a model file that is read."""


def wire_section(groups: Sequence[Group]) -> Section:
    """Return what left the sites, group by group."""
    return Section(
        "wire",
        "What left each site",
        part("wire", [_group(group) for group in groups]),
        "Images, masks and predictions stay at the sites. A reply that holds anything but what its "
        "method declares is refused on both sides.",
        "Wire",
    )


def _group(group: Group) -> tuple[object, ...]:
    """Return title, words, whether statistics leave the sites too, and the bytes: total, table."""
    run = group.counted[0]
    # A plug-in is not loaded for a report.
    kind = REGISTRY.get(group.method) if group.method in REGISTRY.names() else None
    statistics = table_of(run.recipe.get("model")).get("statistics", "averaged") != "averaged"
    size = model_size(run.path / "model.safetensors")
    total: str = ""
    table = Html("")
    if counted := counted_bytes(run):
        table = _table(run, counted, "Bytes that came from each site, as the network counted them")
    elif size is not None and kind is not None and run.rounds:
        made = _made(run, kind, size)
        about = "Content of each site's replies; on a simulation's one machine nothing travelled"
        total, table = _total(made), _table(run, made, about)
    return group.title, _words(kind), statistics, total, table


def _total(made: dict[str, int]) -> str:
    most, least = max(made.values(), default=0), min(made.values(), default=0)
    each = html.size(most) if most == least else f"{html.size(least)} to {html.size(most)}"
    return f"{each} from each of {len(made)} sites, {html.size(sum(made.values()))} in all"


def _words(kind: Any) -> str:
    """Return what a method's card says of what leaves a site."""
    if kind is None:
        return "The method is a plug-in, which a report does not load: see what it declares."
    found = re.search(
        r"^What leaves the site\n((?:[ \t]+.*\n?|\n)+)", card_of_class(kind), re.MULTILINE
    )
    if found:
        return " ".join(found.group(1).split())
    names = ", ".join((*ALWAYS["fit"], *kind.wire.fit, *kind.wire.survey))
    return f"The network's parameters, the number of cases, and: {names}."


def model_size(path: Path) -> int | None:
    """Return the bytes of all tensors of a model file, by its header alone."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= HEADER else {}
        ends = [one["data_offsets"][1] for key, one in header.items() if key != "__metadata__"]
        return max((int(end) for end in ends), default=0)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def counted_bytes(run: RunFacts) -> dict[str, int]:
    """Return the bytes that came from each site, where a network counted them."""
    total: Counter[str] = Counter()
    for one in run.rounds:
        total.update(one.bytes_received)
    return dict(total)


def _made(run: RunFacts, kind: Any, size: int) -> dict[str, int]:
    """Return the bytes of the replies that each site gave: parameters and declared numbers."""
    classes = max(len(run.classes), 1)

    def numbers(names: Sequence[str]) -> int:
        entries = sum(classes if name in kind.wire.per_class else 1 for name in names)
        return NUMBER * (entries + 1)  # and the number of cases

    fit = size + numbers((*ALWAYS["fit"], *kind.wire.fit))
    made = Counter(dict.fromkeys(run.cases, 0))
    for one in run.rounds:
        made.update(dict.fromkeys(one.answered, fit))
    before: dict[str, list[list[float]]] = {}
    for _, rating in run.ratings:
        answers = {
            site: [part.q[k].tolist() for part in rating.parts]
            for k, site in enumerate(rating.sites)
        }
        for site, answer in answers.items():
            if before.get(site) != answer:  # others are remembered, not asked again
                made[site] += numbers(kind.wire.survey)
        before = answers
    return made


def _table(run: RunFacts, made: dict[str, int], about: str) -> Html:
    answered = Counter(site for one in run.rounds for site in one.answered)
    rows = [
        [html.name(site), answered[site], html.Cell(html.size(size), float(size))]
        for site, size in made.items()
    ]
    columns = [Column("site"), Column("replies", "number"), Column("sent", "number")]
    return html.table(about, columns, rows, sites=list(made))
