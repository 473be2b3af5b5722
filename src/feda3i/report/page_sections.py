"""The sections of a report, each from the groups of its runs; words and layout are templates."""

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from safetensors import SafetensorError
from safetensors.numpy import load_file

from feda3i.methods import REGISTRY
from feda3i.methods.base import card_of_class
from feda3i.quality.rating import weight_reason
from feda3i.quality.weights import shares
from feda3i.report import html
from feda3i.report.compare import (
    REFERENCES,
    Group,
    OverSeeds,
    gain,
    last_score,
    over_seeds,
    part,
    section,
    seed_by_seed,
    site_dice,
    steady_words,
)
from feda3i.report.html import Cell, Column, Html, Point, Section, Series
from feda3i.report.runs import RunFacts, State

TONES: dict[State, html.Tone] = {
    "done": "good",
    "under way": "plain",
    "unfinished": "warn",
    "never began": "bad",
}
SHAPES: tuple[html.Shape, ...] = ("circle", "up", "down", "circle")
MOST = 60  # sites that a plot can show one by one; the table has all of them


def main_cards(groups: Sequence[Group]) -> Html:
    """Return the figures that a reader looks for first."""
    scored = [g for g in groups if g.dice.mean is not None and g.method not in REFERENCES]
    items: list[tuple[str, object, object]] = []
    if scored:
        best = max(scored, key=lambda group: group.dice.mean or 0.0)
        count = len(best.counted)
        whose = f"{best.title}, mean of {count} seeds" if count > 1 else best.title
        items.append(("best test Dice", html.number(best.dice.mean), whose))
        won = [(points, g) for g in scored if (points := gain(g, groups).mean) is not None]
        if won:
            points, first = max(won, key=lambda pair: pair[0])
            items.append(("gain over FedAvg", f"{points:+.1f} points", first.title))
        worst = over_seeds(min(one.values(), default=None) for one in _by_site(best))
        if worst.mean is not None:
            items.append(("worst site", html.number(worst.mean), whose))
    runs = [run for group in groups for run in group.runs]
    cases = max((sum(run.cases.values()) for run in runs), default=0)
    sites = max((len(run.cases) for run in runs), default=0)
    done = sum(run.state == "done" for run in runs)
    items.append(("sites", sites, f"{cases:,} training cases"))
    items.append(("runs", len(runs), f"{done} finished"))
    return html.cards(items)


def _by_site(group: Group) -> list[dict[str, float]]:
    return [site_dice(run)[0] for run in group.counted]


def headline(groups: Sequence[Group]) -> Section:
    """Return the table of all groups."""
    has_settings = any(group.setting for group in groups)
    # The last one of a setting stays: the best. A reference does not win.
    rivals = [g for g in groups if g.dice.mean is not None and g.method not in REFERENCES]
    rivals.sort(key=lambda group: group.dice.mean or 0.0)
    best = {group.setting: group for group in rivals}
    return section(
        "results",
        "Results",
        "",
        many=any(len(group.counted) > 1 for group in groups),
        steady=steady_words(groups),
        where=next((w for g in groups for r in g.counted for d, w in [site_dice(r)] if d), ""),
        has_settings=has_settings,
        rows=[_row(g, groups, has_settings, g is best.get(g.setting)) for g in groups],
    )


def _row(group: Group, groups: Sequence[Group], has_settings: bool, is_best: bool) -> list[object]:
    runs, sites, won = group.counted, _by_site(group), gain(group, groups)
    tone = None if not won.mean else "up" if won.mean > 0 else "down"
    return [
        part("remarked", group.label, REFERENCES.get(group.method, "")),
        *([group.setting] if has_settings else []),
        len(runs),
        _cell(group.dice, class_="best" if is_best else None),
        *(
            _cell(over_seeds(last_score(run, score) for run in runs), digits)
            for score, digits in (("dice", 3), ("iou", 3), ("hd95", 2))
        ),
        _cell(won, 1, tone, "+"),
        _cell(over_seeds(min(one.values(), default=None) for one in sites)),
        _cell(over_seeds(over_seeds(one.values()).deviation for one in sites)),
    ]


def _cell(found: OverSeeds, digits: int = 3, class_: str | None = None, sign: str = "") -> Cell:
    if found.mean is None:
        return Cell("-")
    more = "" if found.deviation is None else f" ± {found.deviation:.{digits}f}"
    return Cell(f"{found.mean:{sign}.{digits}f}{more}", found.mean, class_=class_)


def learning(groups: Sequence[Group]) -> Section:
    """Return the curves of every setting."""
    settings = []
    for setting in dict.fromkeys(group.setting for group in groups):
        here = [group for group in groups if group.setting == setting]
        plots = [_curves(here, "test Dice", "dice"), _curves(here, "training loss", "loss")]
        settings.append((setting, plots))
    surveys = {number for g in groups for run in g.counted for number, _ in run.ratings}
    marks = [(at - 0.5, "" if k else "survey") for k, at in enumerate(sorted(surveys)[:6])]
    many = any(len(group.counted) > 1 for group in groups)
    return section(
        "learning", "Learning curves", "Curves", settings=settings, marks=marks, many=many
    )


def _curves(groups: Sequence[Group], what: str, read: str) -> dict[str, Any]:
    found = [(group.label, _series(group, read)) for group in groups]
    series = [one for _, one in found if one.x]
    columns, known = [Column("round", "number")], []
    for one in series:
        titles = [one.name, "lowest", "highest"] if one.low else [one.name]
        columns += [Column(title, "number", 4) for title in titles]
        parts = [one.y, one.low, one.high][: len(titles)]
        known.append(
            (dict(zip(one.x, zip(*parts, strict=True), strict=True)), (None,) * len(parts))
        )
    rounds = sorted({x for one in series for x in one.x})
    return {
        "what": what,
        "title": f"{what[0].upper()}{what[1:]} over the rounds",
        "series": series,
        "last": int(max(rounds, default=0)),
        "ends": ", ".join(f"{label} {one.y[-1]:.3f}" for label, one in found if one.x),
        "columns": columns,
        "rows": [
            [int(x), *(v for values, gap in known for v in values.get(x, gap))] for x in rounds
        ],
    }


def _series(group: Group, read: str) -> Series:
    """Return the mean over seeds in the rounds that every seed has, and the band around it."""
    found = [
        {one.round: value for one in run.rounds if (value := getattr(one, read)) is not None}
        for run in group.counted
    ]
    found = [one for one in found if one]
    rounds = sorted(set.intersection(*map(set, found))) if found else []
    columns = [[one[r] for one in found] for r in rounds]
    many = len(found) > 1
    return Series(
        f"{group.label}, {len(found)} seeds" if many else group.label,
        [float(r) for r in rounds],
        [statistics.fmean(c) for c in columns],
        [min(c) for c in columns] if many else (),
        [max(c) for c in columns] if many else (),
    )


def weights(groups: Sequence[Group]) -> Section:
    """Return the weights of every group that has any of its own."""
    weighed = [(group, [run for run in group.counted if run.weights]) for group in groups]
    plain = ", ".join(group.title for group, runs in weighed if not runs)
    heats = html.join(seed_by_seed(group, runs, _heat) for group, runs in weighed if runs)
    return section("weights", "Who has how much say", "Weights", heats=heats, plain=plain)


def _heat(run: RunFacts) -> Html:
    found, mu = run.weights, run.mu
    sites = sorted(found, key=lambda site: (-found[site][-1], site))
    count, width = len(sites), len(found[sites[0]])
    stages = run.stages if len(run.stages) == width else [f"stage {k + 1}" for k in range(width)]
    columns = [Column("site"), *([Column("true mu, px", "number", 1)] if mu else [])]
    columns += [Column(stage, "number", 1) for stage in (["all stages"] if width == 1 else stages)]
    columns += [Column("why")]
    cases = [run.cases.get(site, 0) for site in sites]
    size = shares(cases) if sum(cases) else [1 / count] * count
    rating = run.ratings[-1][1] if run.ratings else None
    rows: list[list[object]] = []
    for site, share in zip(sites, size, strict=True):
        row = found[site]
        reason = weight_reason(rating, site) if rating is not None else f"as {run.method} weighs it"
        words = (
            f"{100 * row[-1]:.1f} % of the weight for {100 * share:.1f} % of the cases: {reason}."
        )
        cells = [Cell(f"{count * w:.1f}", count * w, style=html.heat(count * w)) for w in row]
        head: list[object] = [html.name(site), *([mu.get(site)] if mu else [])]
        rows.append([*head, *cells, Cell(words, class_="why")])
    caption = f"Weight times the number of sites ({count}), most say in the last stage first"
    return html.table(caption, columns, rows, sites=sites, kind="heat")


def sites(groups: Sequence[Group]) -> Section | None:
    """Return the Dice of every site under every method; nothing if no run has it."""
    settings, where = [], ""
    for setting in dict.fromkeys(group.setting for group in groups):
        here = [group for group in groups if group.setting == setting]
        means = {group.label: _means(group) for group in here}
        found = {label: dice for label, (dice, _) in means.items() if dice}
        if found:
            where = where or next(cases for dice, cases in means.values() if dice)
            settings.append((setting, _dots(found, here)))
    if not settings:
        return None
    return section("sites", "Site by site", "Sites", settings=settings, where=where)


def _means(group: Group) -> tuple[dict[str, float], str]:
    found: dict[str, list[float]] = {}
    where = ""
    for run in group.counted:
        dice, where = site_dice(run)
        for site, value in dice.items():
            found.setdefault(site, []).append(value)
    return {site: statistics.fmean(values) for site, values in sorted(found.items())}, where


def _dots(found: Mapping[str, Mapping[str, float]], groups: Sequence[Group]) -> Html:
    base = next((g.label for g in groups if g.method == "fedavg" and g.label in found), None)
    leading = base or next(iter(found))
    names = sorted({site for means in found.values() for site in means})
    order = sorted(names, key=lambda site: found[leading].get(site, 2.0))
    references = {g.label for g in groups if g.method in REFERENCES}
    gains = [label for label in found if base and label != base and label not in references]
    columns = [Column("site"), *(Column(label, "number") for label in found)]
    columns += [Column(f"gain of {k}", "number", 1, "points of Dice over FedAvg") for k in gains]
    rows = [
        [html.name(site), *(found[label].get(site) for label in found)]
        + [_gain(found[label].get(site), found[str(base)].get(site)) for label in gains]
        for site in order
    ]
    table = html.table("Dice by site, lowest first", columns, rows, sites=order)
    if len(order) < 2:
        return table
    points = [
        Point(k, means[site], f"{site}: {label} {means[site]:.3f}", SHAPES[j % 4], j, site=site)
        for j, (label, means) in enumerate(found.items())
        for k, site in enumerate(order[:MOST], start=1)
        if site in means
    ]
    worst = {label: min(means, key=lambda s: means[s]) for label, means in found.items()}
    about = "; ".join(
        f"{label}: worst {site} {found[label][site]:.3f}, "
        f"spread {statistics.pstdev(found[label].values()):.3f}"
        for label, site in worst.items()
    )
    across = f"sites, from the worst under {leading} to the best"
    chart = html.plane("Dice by site", about, points, x_label=across, y_label="Dice", is_wide=True)
    keys = [(label, html.dot_key(SHAPES[j % 4], j)) for j, label in enumerate(found)]
    more = f" The plot shows the {MOST} worst of {len(order)} sites." if len(order) > MOST else ""
    return part("plot_and_table", chart, keys, f"{about}.{more}", table)


def _gain(mine: float | None, theirs: float | None) -> Cell:
    if mine is None or theirs is None:
        return Cell("-")
    points = 100 * (mine - theirs)
    return Cell(f"{points:+.1f}", points, class_="up" if points > 0 else "down")


def redrawn_masks(groups: Sequence[Group]) -> Section | None:
    """Return offsets before and after redrawing; nothing if no run redrew masks."""
    body = [
        seed_by_seed(group, runs, _offsets)
        for group in groups
        if (runs := [run for run in group.counted if run.offsets])
    ]
    return section("redrawn", "Masks redrawn", "Redrawn", body=html.join(body)) if body else None


def _offsets(run: RunFacts) -> Html:
    count = max(len(rows) for rows in run.offsets.values())
    return html.join(part("redrawn_class", _offsets_of(run, k)) for k in range(count))


def _offsets_of(run: RunFacts, k: int) -> dict[str, Any]:
    """Return how far sites drew one class outside the border, and what they trained on."""
    scale, unit = run.unit
    told = {site: rows[k] for site, rows in run.offsets.items() if k < len(rows)}
    found = {site: (scale * row[0], scale * row[1], int(row[2])) for site, row in told.items()}
    moved = {site: scale * (*run.moved.get(site, ()), *[0.0] * (k + 1))[k] for site in found}
    order = sorted((s for s in found if found[s][2] > 0), key=lambda site: found[site][0])
    after = {site: found[site][0] + moved[site] for site in order}
    mu = run.mu if unit == "px" else {}
    rows: list[list[object]] = []
    for site in (every := [*order, *sorted(set(found) - set(order))]):
        offset, error, cases = found[site]
        known = [offset, error, cases, moved[site], after.get(site)]
        row = known if site in after else [Cell("cannot tell"), None, 0, 0.0, None]
        rows.append([html.name(site), *([mu.get(site)] if mu else []), *row])
    points, about = [], ""
    for place, site in enumerate(order[:MOST] if len(order) > 1 else [], start=1):
        drawn, error, _ = found[site]
        tip = f"{site}: drawn {drawn:+.1f} ± {error:.1f} {unit}, trained on {after[site]:+.1f}"
        points.append(Point(place, drawn, tip, "circle", 1, site=site))
        points.append(Point(place, after[site], tip, "up", 0, site=site))
        about = (
            f"{sum(by != 0 for by in moved.values())} of {len(found)} sites moved their contours, "
            f"{len(found) - len(order)} cannot tell; drawn {found[order[0]][0]:+.1f} to "
            f"{found[order[-1]][0]:+.1f} px, trained on {min(after.values()):+.1f} to "
            f"{max(after.values()):+.1f} {unit}."
        )
    classes = run.data.get("classes", [])
    name = classes[k] if k < len(classes) else f"class {k + 1}"
    title = f"Offsets of {name}"
    return {
        "title": title,
        "about": about,
        "points": points,
        "mu": mu,
        "unit": unit,
        "rows": rows,
        "sites": every,
    }


def wire(groups: Sequence[Group]) -> Section:
    """Return what left the sites, group by group."""
    left = [_left(group) for group in groups]
    return section("wire", "What left each site", "Wire", groups=left)


def _left(group: Group) -> dict[str, Any]:
    run = group.counted[0]
    size = model_size(run.path / "model.safetensors")
    answered = Counter(site for one in run.rounds for site in one.site_loss)
    sent = {site: answered[site] * size for site in run.cases if size}
    most, least = max(sent.values(), default=0), min(sent.values(), default=0)
    each = html.size(most) if most == least else f"{html.size(least)} to {html.size(most)}"
    return {
        "title": group.title,
        "words": _declared(group.method),
        "total": f"{each} from each of {len(sent)} sites, {html.size(sum(sent.values()))} in all",
        "rows": [[html.name(s), answered[s], Cell(html.size(n), n)] for s, n in sent.items()],
        "sites": [*sent],
    }


def _declared(name: str) -> str:
    """Return what a method's card says of what leaves a site; a plug-in's is not loaded."""
    if name not in REGISTRY.builtin:
        return "The method is a plug-in, which a report does not load: see what it declares."
    card = card_of_class(REGISTRY.get(name))
    found = re.search(r"^What leaves the site\n((?:[ \t]+.*\n?|\n)+)", card, re.MULTILINE)
    return " ".join(found.group(1).split()) if found else ""


def model_size(path: Path) -> int:
    """Return the bytes of all tensors of a model file; 0 if there is none that can be read."""
    try:
        return sum(tensor.nbytes for tensor in load_file(path).values())
    except (OSError, SafetensorError):
        return 0


def what_was_run(groups: Sequence[Group]) -> Section:
    """Return recipes, seeds, data and versions."""
    rows = [
        [
            html.name(run.name),
            group.label,
            run.recipe.seed,
            html.badge(TONES[run.state], run.state),
            Cell(f"{len(run.rounds)} of {run.recipe.rounds}", len(run.rounds)),
            sum(one.seconds for one in run.rounds) / 60,
            Cell(run.data.get("sha256", "-")[:12], class_="code"),
            run.manifest["feda3i"],
        ]
        for group in groups
        for run in group.runs
    ]
    recipes = [
        (
            group.title,
            ", ".join(str(run.recipe.seed) for run in group.runs),
            tomli_w.dumps(group.runs[0].recipe.shared()).splitlines(),
        )
        for group in groups
    ]
    return section(
        "run", "What was run", "Recipe", rows=rows, facts=_facts(groups[0].runs[0]), recipes=recipes
    )


def _facts(run: RunFacts) -> list[tuple[str, object]]:
    data, notes = run.data, run.data.get("notes", {})
    noise, drawn = notes.get("noise"), notes.get("mask_dice")
    pairs: list[tuple[str, object]] = [
        ("data set", run.recipe.data.name),
        ("cases", f"{data.get('cases', '?')} to train on, {data.get('test', '?')} to test on"),
        ("classes", ", ".join(data.get("classes", [])) or "not known"),
        ("sites", len(run.cases)),
        ("masks", f"SIMULATED noise ({noise})" if noise else "as the sites drew them"),
        ("processor", run.manifest["processor"].get("name", "not known")),
        ("Python, torch", f"{run.manifest['python']}, {run.manifest['packages'].get('torch')}"),
        ("started", run.manifest["created"]),
    ]
    if isinstance(drawn, float):
        pairs.insert(5, ("Dice of the noisy masks with the clean ones", html.number(drawn)))
    return pairs
