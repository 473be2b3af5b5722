"""The operator's page of a run: sites present, late and refused, rounds, seconds, bytes, survey.

The upper part says how things are now and is made again every few seconds. The plots below are
those of the report and are made again after every round.
"""

from __future__ import annotations

from datetime import UTC, datetime

from feda3i.errors import FedA3IError
from feda3i.flower.watch import OFTEN, Glance
from feda3i.report import html
from feda3i.report.html import Column, Html, Section
from feda3i.report.run.compare import group_runs
from feda3i.report.run.learning import learning
from feda3i.report.run.reader import read_run
from feda3i.report.run.survey_section import survey_section
from feda3i.report.run.weights_section import weights_section

SHOWN = 50
"""Rounds in the table, the last ones."""
TONES: dict[str, html.Tone] = {
    "present": "good",
    "late": "warn",
    "away": "warn",
    "refused": "bad",
    "locked": "bad",
}


class OperatorPage:
    """Make the page; the report's plots are kept from one round to the next."""

    def __init__(self) -> None:
        self._plots: list[Section] = []

    def __call__(self, glance: Glance, has_round: bool) -> str:
        """Return the text of the page."""
        if has_round:
            self._plots = _plots(glance)
        sections = [_sites(glance), _rounds(glance), *self._plots]
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        often = f", again every {OFTEN:.0f} s" if glance.state == "running" else ""
        return html.page(
            f"{glance.name}: {glance.title}" if glance.title else glance.name,
            sections,
            subtitle=f"Operator's page, written {now}{often}",
            top=html.join([_cards(glance), _notices(glance)]),
            refresh=OFTEN if glance.state == "running" else 0,
        )


def _plots(glance: Glance) -> list[Section]:
    """Return the sections of the report that show how it learns and what the survey said."""
    if not glance.tally.rounds:
        return []
    try:
        groups = group_runs([read_run(glance.folder)])
    except FedA3IError:
        return []  # a page without plots is better than none
    made = [learning(groups), survey_section(groups), weights_section(groups)]
    return [one for one in made if one is not None]


def _cards(glance: Glance) -> Html:
    rounds, last = glance.tally.rounds, (glance.tally.rounds or [{}])[-1]
    present = sum(state == "present" for state in glance.now.values())
    number = html.number
    sent = sum(one.sent for one in glance.tally.sites.values())
    received = sum(one.received for one in glance.tally.sites.values())
    items: list[tuple[str, object, object]] = [
        ("State", glance.state, glance.reason),
        ("Round", f"{last.get('round', 0)} of {glance.planned}", "finished"),
        ("Sites", f"{present} of {len(glance.now)}", "connected now"),
        ("Loss", number(last.get("loss"), 4), "last round"),
    ]
    scored = [event for event in rounds if event.get("dice") is not None]
    if scored:
        items.append(("Dice", number(scored[-1]["dice"], 4), f"round {scored[-1]['round']}"))
    if last:
        items.append(("Seconds", number(last["seconds"], 1), "last round"))
    items.append(("Traffic", html.size(sent + received), f"{html.size(sent)} to sites"))
    return html.cards(items)


def _notices(glance: Glance) -> Html:
    late = [
        f"{site}: asked {seconds:.0f} s ago" if seconds is not None else f"{site}: not connected"
        for site, seconds in sorted(glance.waiting.items())
    ]
    number = (glance.tally.rounds or [{}])[-1].get("round", 0) + 1
    out = [f"{site}: {why}" for site, why in sorted(glance.why.items())]
    other = [f"{site} runs feda3i {version}" for site, version in glance.versions.items()]
    return html.join(
        [
            html.notice("plain", f"Round {number} waits for", late),
            html.notice("bad", "Refused or locked out", out),
            html.notice("warn", "Another version than the server's", other),
        ]
    )


def _state(glance: Glance, site: str) -> str:
    """Return how a site is doing; late is one that others wait for."""
    now = glance.now.get(site, "away")
    answered = len(glance.tally.sites) - len(glance.waiting)
    is_late = glance.waiting.get(site) is not None and answered > len(glance.waiting)
    return "late" if now == "present" and is_late else now


def _sites(glance: Glance) -> Section:
    columns = [
        Column("site"),
        Column("state", hint="late: most others have answered this round, it has not"),
        Column("cases", "number", hint="as the site says"),
        Column("share", "number", 2, hint="of all cases"),
        Column("last round", "number", hint="the last round that it answered"),
        Column("missed", "number", hint="rounds that it missed"),
        Column("guarded", "number", hint="rounds in which the guard acted on it"),
        Column("loss", "number", 4),
        Column("work s", "number", 1, hint="seconds of its own work in the last round"),
        Column("answer s", "number", 1, hint="seconds from the order to its answer"),
        Column("sent", "number", hint="bytes to the site"),
        Column("received", "number", hint="bytes from the site"),
        Column("last reason", hint="why it missed the last round"),
    ]
    total = sum(one.cases for one in glance.tally.sites.values()) or 1
    rows: list[list[object]] = []
    names = sorted({*glance.now, *glance.tally.sites})
    for site in names:
        one, state = glance.tally.of(site), _state(glance, site)
        rows.append(
            [
                html.name(site),
                html.Cell(html.badge(TONES.get(state, "plain"), state), state),
                one.cases,
                one.cases / total,
                one.last or None,
                one.missed,
                one.guarded,
                one.loss,
                one.seconds,
                one.answer_seconds,
                html.Cell(html.size(one.sent), float(one.sent)),
                html.Cell(html.size(one.received), float(one.received)),
                one.reason,
            ]
        )
    table = html.table("Sites", columns, rows, sites=names)
    return Section("sites", "Sites", table, "Who is here now, and what each has done so far.")


def _rounds(glance: Glance) -> Section:
    columns = [
        Column("round", "number"),
        Column("sites"),
        Column("loss", "number", 4),
        Column("Dice", "number", 4),
        Column("seconds", "number", 1),
        Column("slowest work s", "number", 1),
        Column("bytes", "number", hint="to and from all sites"),
        Column("missing"),
    ]
    rows: list[list[object]] = []
    for event in reversed(glance.tally.rounds[-SHOWN:]):
        moved = [*event.get("bytes_sent", {}).values(), *event.get("bytes_received", {}).values()]
        rows.append(
            [
                event["round"],
                f"{event['answered']}/{event['asked']}",
                event["loss"],
                event.get("dice"),
                event["seconds"],
                max(event["site_seconds"].values(), default=None),
                html.Cell(html.size(sum(moved)), float(sum(moved))),
                "; ".join(f"{site}: {why}" for site, why in event["missing"].items()),
            ]
        )
    table = html.table("Rounds, the last one first", columns, rows)
    return Section("rounds", "Rounds", table, "What came out of each round.")
