"""The top of the report: main figures, the headline table, and what was run."""

from __future__ import annotations

from collections.abc import Sequence

import tomli_w

from feda3i.report import html
from feda3i.report.compare import (
    REFERENCES,
    Group,
    OverSeeds,
    gain,
    last_score,
    over_seeds,
    part,
    site_dice,
    steady_words,
)
from feda3i.report.html import Cell, Column, Html, Section
from feda3i.report.run_facts import RunFacts, State, table_of

TONES: dict[State, html.Tone] = {
    "done": "good",
    "under way": "plain",
    "unfinished": "warn",
    "never began": "bad",
}


def main_cards(groups: Sequence[Group]) -> Html:
    """Return the figures that a reader looks for first."""
    scored = [g for g in groups if g.dice.mean is not None and g.method not in REFERENCES]
    items: list[tuple[str, object, object]] = []
    if scored:
        best = max(scored, key=lambda group: group.dice.mean or 0.0)
        count = len(best.counted)
        whose = f"{best.title}, mean of {count} seeds" if count > 1 else best.title
        items.append(("best test Dice", html.number(best.dice.mean), whose))
        won = [(g, gain(g, groups)) for g in scored]
        gains = [(g, s) for g, s in won if s.mean is not None]
        if gains:
            first, points = max(gains, key=lambda pair: pair[1].mean or -100.0)
            items.append(("gain over FedAvg", f"{points.mean:+.1f} points", first.title))
        worst = over_seeds(min(one.values(), default=None) for one in _by_site(best))
        if worst.mean is not None:
            items.append(("worst site", html.number(worst.mean), whose))
    runs = [run for group in groups for run in group.runs]
    sites = max((len(run.cases) for run in runs), default=0)
    cases = max((sum(run.cases.values()) for run in runs), default=0)
    done = sum(run.state == "done" for run in runs)
    items.append(("sites", sites, f"{cases:,} training cases"))
    items.append(("runs", len(runs), f"{done} finished"))
    return html.cards(items)


def _by_site(group: Group) -> list[dict[str, float]]:
    return [site_dice(run)[0] for run in group.counted]


def headline(groups: Sequence[Group]) -> Section:
    """Return the table of all groups."""
    has_settings = any(group.setting for group in groups)
    steady = steady_words(groups)
    columns = [
        Column("method"),
        *([Column("setting")] if has_settings else []),
        Column("seeds", "number", hint="finished runs that the figures are made of"),
        Column("Dice", "number", hint=f"test cases, {steady}"),
        Column("Dice, last round", "number"),
        Column("IoU", "number", hint="test cases, last round"),
        Column("HD95", "number", 2, hint="test cases, last round; lower is better"),
        Column("gain over FedAvg", "number", 1, hint="points of Dice, seed by seed"),
        Column("worst site", "number", hint="lowest Dice of a site"),
        Column("spread of sites", "number", hint="standard deviation of Dice over sites"),
    ]
    best = _best(groups)
    rows = [_row(group, groups, has_settings, group is best.get(group.setting)) for group in groups]
    many = any(len(group.counted) > 1 for group in groups)
    about = (
        "Mean ± standard deviation over seeds. " if many else "One seed each: no spread is known. "
    )
    where = next((w for g in groups for r in g.counted for d, w in [site_dice(r)] if d), "")
    return Section(
        "results",
        "Results",
        html.table("Scores by method", columns, rows, hidden_caption=True),
        f"{about}Dice is the {steady}"
        + (f"; figures by site are Dice on the {where}." if where else "."),
    )


def _best(groups: Sequence[Group]) -> dict[str, Group]:
    """Return the best method of each setting, references aside."""
    best: dict[str, Group] = {}
    for group in groups:
        dice = group.dice.mean
        if dice is None or group.method in REFERENCES:
            continue
        rival = best.get(group.setting)
        if rival is None or dice > (rival.dice.mean or 0.0):
            best[group.setting] = group
    return best


def _row(group: Group, groups: Sequence[Group], has_settings: bool, is_best: bool) -> list[object]:
    runs = group.counted
    remark = REFERENCES.get(group.method, "")
    sites = _by_site(group)
    won = gain(group, groups)
    tone = None if not won.mean else "up" if won.mean > 0 else "down"
    return [
        part("remarked", group.label, remark),
        *([group.setting] if has_settings else []),
        len(runs),
        _cell(group.dice, class_="best" if is_best else None),
        *(
            _cell(over_seeds(last_score(run, score) for run in runs), digits)
            for score, digits in (("dice", 3), ("iou", 3), ("hd95", 2))
        ),
        Cell(_signed(won), won.mean, class_=tone),
        _cell(over_seeds(min(one.values(), default=None) for one in sites)),
        _cell(over_seeds(over_seeds(one.values()).deviation for one in sites)),
    ]


def _cell(found: OverSeeds, digits: int = 3, class_: str | None = None) -> Cell:
    return Cell(_plus_minus(found, digits), found.mean, class_=class_)


def _plus_minus(found: OverSeeds, digits: int) -> str:
    shown = html.number(found.mean, digits)
    more = "" if found.deviation is None else f" ± {html.number(found.deviation, digits)}"
    return f"{shown}{more}"


def _signed(found: OverSeeds) -> str:
    if found.mean is None:
        return "-"
    more = "" if found.deviation is None else f" ± {found.deviation:.1f}"
    return f"{found.mean:+.1f}{more}"


def what_was_run(groups: Sequence[Group]) -> Section:
    """Return recipes, seeds, data and versions."""
    runs = [run for group in groups for run in group.runs]
    columns = [
        Column("run"),
        Column("method"),
        Column("seed", "number"),
        Column("state"),
        Column("rounds", "number"),
        Column("minutes", "number", 1),
        Column("data, SHA-256"),
        Column("feda3i"),
    ]
    rows = [
        [
            html.name(run.name),
            group.label,
            run.seed,
            html.badge(TONES[run.state], run.state),
            Cell(f"{len(run.rounds)} of {run.planned or '?'}", float(len(run.rounds))),
            _minutes(run),
            Cell(str(run.data.get("sha256", "-"))[:12], class_="code"),
            str(run.manifest.get("feda3i", "-"))[:20],
        ]
        for group in groups
        for run in group.runs
    ]
    table = html.table("All runs of this report", columns, rows, hidden_caption=True)
    body = part("what_was_run", table, _data(runs), map(_recipe, groups))
    intro = (
        "Everything that is needed to repeat it: recipes, seeds, the hash of the data, versions."
    )
    return Section("run", "What was run", body, intro, "Recipe")


def _minutes(run: RunFacts) -> float | None:
    known = [one.seconds for one in run.rounds if one.seconds is not None]
    return sum(known) / 60 if known else None


def _data(runs: Sequence[RunFacts]) -> list[tuple[object, object]]:
    run = runs[0]
    data, notes = run.data, table_of(run.data.get("notes"))
    packages = table_of(run.manifest.get("packages"))
    noise, drawn = notes.get("noise"), notes.get("mask_dice")
    pairs: list[tuple[object, object]] = [
        ("data set", table_of(run.recipe.get("data")).get("name", "not known")),
        ("cases", f"{data.get('cases', '?')} to train on, {data.get('test', '?')} to test on"),
        ("classes", ", ".join(run.classes) or "not known"),
        ("sites", len(run.cases)),
        ("masks", f"SIMULATED noise ({noise})" if noise else "as the sites drew them"),
        ("processor", table_of(run.manifest.get("processor")).get("name", "not known")),
        ("Python, torch", f"{run.manifest.get('python', '?')}, {packages.get('torch', '?')}"),
        ("started", run.manifest.get("created", "not known")),
    ]
    if isinstance(drawn, float):
        pairs.insert(5, ("Dice of the noisy masks with the clean ones", html.number(drawn)))
    return pairs


def _recipe(group: Group) -> tuple[str, str, list[str]]:
    """Return title, seeds and lines of a recipe."""
    run = group.runs[0]
    try:
        text = tomli_w.dumps(run.recipe)
    except (TypeError, ValueError):  # a value of JSON, such as null, that TOML does not have
        text = str(run.recipe)
    return group.title, ", ".join(str(one.seed) for one in group.runs), text.splitlines()
