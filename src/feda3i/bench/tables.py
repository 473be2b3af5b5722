"""The tables of a board: scores, paired differences, ranks, the gap closed, and why."""

import math
from collections.abc import Iterator, Sequence

from feda3i.bench.board import Board
from feda3i.bench.paper import loss, published
from feda3i.bench.result import RunResult
from feda3i.bench.stats import Spread, compare, holm, interval, mean_ranks, spearman
from feda3i.bench.text_table import Table

NAMED = 6  # missing runs that are named; of further ones, the number
LAST = 5  # rounds of the second score: single rounds jump
REFERENCE = {"CE": "feda3i", "DC": "feda3i,loss=dc"}
"""The row that the others of a loss family are compared with."""
FLOOR = {"CE": "fedavg", "DC": "fedavg,loss=dc"}
CEILING = {"CE": "clean", "DC": "clean,loss=dc"}
"""Training on clean masks: what a method of the same loss could reach."""
FACTS = {
    "warm_up_dice": ".2f",
    "grouped_right": ".2f",
    "residual_bias": "+.1f",
    "residual_bias_fedavg": "+.1f",
    "effective_sites": ".1f",
}
"""What a result knows of its survey, and how it is printed."""


def tables_of(board: Board) -> list[Table]:
    """Return all tables that a board has results for."""
    if board.is_sweep:
        made = [sweep_table(board), why_table(board)]
    else:
        made = [scores(board, 1), scores(board, LAST), beside_paper(board), ordering(board)]
        made += [differences(board), why_table(board)]
    return [table for table in made if table.rows]


def scores(board: Board, rounds: int) -> Table:
    """Return Dice (%) as mean and standard deviation over seeds; the best of a column is bold."""
    best = {column: _best_of(board, column, rounds) for column in board.columns}
    rows = []
    for row in board.rows:
        cells = [_cell(board, c, row, rounds, row in best[c]) for c in board.columns]
        if set(cells) != {"-"}:
            rows.append((board.named(row), *cells))
    results = [result for found in board.found.values() for result in found.values()]
    seeds = sorted({result.recipe.seed for result in results})
    what = "in the last round" if rounds == 1 else f"mean of the last {rounds} scored rounds"
    many = f"mean ± standard deviation over training seeds {', '.join(map(str, seeds))}"
    return Table(
        f"{board.name}-last{rounds}",
        f"Test Dice (%) {what}, {many if len(seeds) > 1 else f'training seed {seeds[0]} alone'}.",
        ("method", *board.columns),
        tuple(rows) if min(len(result.dice) for result in results) >= rounds else (),
        _counts(board),
    )


def _cell(board: Board, column: str, row: str, rounds: int = 1, is_bold: bool = False) -> str:
    """Return the score of a place, and how many of its runs have none because they collapsed."""
    lost, count = board.collapsed(column, row), len(board.results(column, row))
    if lost and lost == count:
        return "collapsed"
    text = _percent(board.score(column, row, rounds), is_bold)
    return f"{text} ({lost} of {count} collapsed)" if lost else text


def _counts(board: Board) -> str:
    """Say where a cell has fewer seeds than the others."""
    counts = {place: len(found) for place, found in board.found.items()}
    most = max(counts.values(), default=0)
    fewer = [f"{board.label(row)} {column}: {n}" for (column, row), n in counts.items() if n < most]
    return f"Fewer than {most} seeds: {'; '.join(fewer)}." if fewer else ""


def _best_of(board: Board, column: str, rounds: int) -> list[str]:
    """Return the rows with the highest score of a column, without the ceiling; none if alone."""
    found = {r: board.score(column, r, rounds) for r in board.rows if r not in CEILING.values()}
    there = {row: cell.mean for row, cell in found.items() if cell is not None}
    return [row for row, mean in there.items() if mean == max(there.values()) and len(there) > 1]


def _percent(cell: Spread | None, is_bold: bool = False) -> str:
    """Return ``72.69 ± 1.28``; without the spread if there is one seed only."""
    if cell is None:
        return "-"
    around = f" ± {100 * cell.std:.2f}" if cell.count > 1 else ""
    text = f"{100 * cell.mean:.2f}{around}"
    return f"**{text}**" if is_bold else text


def sweep_table(board: Board) -> Table:
    """Return one line per value that varies, for each setting."""
    rows = []
    shared = {setting: board.common_seeds(setting) for setting in board.settings}
    texts = [f"{setting}: {', '.join(map(str, s))}" for setting, s in shared.items() if s]
    for column, (setting, point) in board.points.items():
        cells = [board.score(column, row, seeds=shared[setting]) for row in board.rows]
        if any(cells):
            rows.append((setting, f"{point[0][1]}", *(_percent(cell) for cell in cells)))
    key = next((point[0][0] for _, point in board.points.values()), "value")
    return Table(
        f"{board.name}-sweep",
        "Test Dice (%) in the last round, mean ± standard deviation over training seeds.",
        ("setting", key, *(board.named(row) for row in board.rows)),
        tuple(rows),
        f"Seeds that all points have: {'; '.join(texts)}." if texts else "",
    )


def beside_paper(board: Board) -> Table:
    """Return ours beside the paper's, where it has the row and the column."""
    columns = [c for c in board.columns if any(published(row, c) for row in board.rows)]
    rows = []
    for row in board.rows:
        paper = [published(row, column) for column in columns]
        if any(p and board.results(c, row) for c, p in zip(columns, paper, strict=True)):
            mine = [_cell(board, column, row) for column in columns]
            cells = [f"{text} / {_percent(p)}" for text, p in zip(mine, paper, strict=True)]
            rows.append((board.named(row), *cells))
    return Table(
        f"{board.name}-paper",
        "Ours / the paper's Dice (%). The scale differs: compare orders and signs, not digits.",
        ("method", *columns),
        tuple(rows),
    )


def ordering(board: Board) -> Table:
    """Return mean ranks, and per column whether the paper's winner wins here."""
    rows = []
    for column in board.columns:
        for family in REFERENCE:
            ours = _means(board, column, family)
            paper = {r: p.mean for r in ours if (p := published(r, column))}
            if len(paper) < 2:
                continue
            expected = max(paper, key=paper.__getitem__)
            winners = [r for r in paper if ours[r] == max(ours[other] for other in paper)]
            rho = spearman([ours[r] for r in paper], list(paper.values()))
            yes = "yes" if expected in winners else f"no: {board.label(winners[0])}"
            shown = "-" if math.isnan(rho) else f"{rho:.2f}"
            rows.append((column, family, str(len(paper)), board.label(expected), yes, shown))
    return Table(
        f"{board.name}-order",
        "Does the order of the paper hold? Spearman's rank correlation of our ranking of the "
        "methods with the paper's.",
        ("setting", "loss", "methods", "the paper's winner", "wins here", "Spearman"),
        tuple(rows),
        _ranks(board),
    )


def _ranks(board: Board) -> str:
    texts = []
    for family in REFERENCE:
        ours = {column: _means(board, column, family) for column in board.columns}
        ranks = mean_ranks({column: found for column, found in ours.items() if found})
        best = sorted(ranks.items(), key=lambda item: item[1])
        if len(best) > 1:
            said = ", ".join(f"{board.label(row)} {rank:.1f}" for row, rank in best)
            texts.append(f"{family}: {said}")
    return f"Mean rank over settings, 1 is best. {'; '.join(texts)}." if texts else ""


def _means(board: Board, column: str, family: str) -> dict[str, float]:
    """Return the mean Dice of a loss family's rows in a column, without the ceiling.

    A run that collapsed counts as 0: it is the last of its column.
    """
    members = [row for row in board.rows if row != CEILING[family] and loss(row) == family]
    found = {row: board.results(column, row).values() for row in members}
    return {row: sum(r.last() for r in runs) / len(runs) for row, runs in found.items() if runs}


def _reference_of(board: Board, family: str) -> str:
    """Return the row that the others of a loss family are compared with."""
    has_usual = any(board.results(column, REFERENCE[family]) for column in board.columns)
    return board.reference or (REFERENCE if has_usual else FLOOR)[family]


def differences(board: Board) -> Table:
    """Return the reference row minus each other one, by seed and over test cases."""
    rows = []
    for column in board.columns:
        found = []
        for row in board.rows:
            reference = _reference_of(board, loss(row))
            if row in (reference, CEILING[loss(row)]) or board.collapsed(column, row):
                continue
            pair = compare(*(_cases(board, column, one) for one in (row, reference)))
            if pair is not None:
                found.append((row, pair))
        for (row, pair), p in zip(found, holm([pair.p for _, pair in found]), strict=True):
            points = [100 * value for value in pair.by_seed.values()]
            ends = interval(points)
            cells = [
                ", ".join(f"{value:+.1f}" for value in points),
                "-" if ends is None else f"[{ends[0]:+.1f}, {ends[1]:+.1f}]",
                f"{100 * pair.mean:+.2f} [{100 * pair.low:+.2f}, {100 * pair.high:+.2f}]",
                "< 0.001" if p < 0.001 else f"{p:.3f}",
            ]
            rows.append((column, board.named(row), *cells))
    whom = board.label(_reference_of(board, "CE"))
    family = "" if board.reference else " of the same loss family"
    return Table(
        f"{board.name}-differences",
        f"{whom} minus each method{family}, points of Dice in the last round; positive: {whom} is "
        "better.",
        ("setting", "against", "by seed", "seeds [95 %]", "test cases [95 %]", "p"),
        tuple(rows),
        "Over seeds: Student's interval of the mean. Over test cases: means over seeds, bootstrap "
        "interval, Wilcoxon's signed-rank test with Holm's correction within a setting. It says "
        "whether the difference is there on this test set, not whether another training would "
        "have it: see the seeds.",
    )


def _cases(board: Board, column: str, row: str) -> dict[int, dict[str, float]]:
    return {seed: result.cases for seed, result in board.results(column, row).items()}


def why_table(board: Board) -> Table:
    """Return how sites were grouped in each run of FedA3I, and what it gained."""
    rows = []
    for column, row, seed, result, gain in surveyed_runs(board):
        known = {key: result.fact(key) for key in FACTS}
        facts = ["-" if (v := known[k]) is None else f"{v:{spec}}" for k, spec in FACTS.items()]
        gained = "-" if gain is None else f"{gain:+.1f}"
        rows.append((column, board.named(row), str(seed), *facts, gained))
    return Table(
        f"{board.name}-why",
        "What the survey found: Dice of the model that asked, share of sites grouped by the sign "
        "of their true offset, residual bias sum w mu (px at 256) of the quality weights and of "
        "FedAvg's, effective sites, gain over FedAvg.",
        (
            *("setting", "method", "seed", "warm-up Dice", "grouped right", "bias"),
            *("FedAvg's bias", "effective sites", "gain"),
        ),
        tuple(rows),
    )


def surveyed_runs(board: Board) -> Iterator[tuple[str, str, int, RunResult, float | None]]:
    """Yield column, row, seed and result of each run with a survey, and its gain over FedAvg.

    The gain is in points of Dice; ``None`` without FedAvg's run of the same loss and seed.
    """
    for column in board.columns:
        for row in board.rows:
            for seed, result in board.results(column, row).items():
                if result.fact("residual_bias") is not None:
                    plain = board.results(column, FLOOR[loss(row)]).get(seed)
                    gain = None if plain is None else 100 * (result.last() - plain.last())
                    yield column, row, seed, result, gain


def missing_lines(board: Board) -> list[str]:
    """Return in words which runs have no result yet; none if all have."""
    names = [f"{cell.column} {board.named(cell.row)} seed {cell.seed}" for cell in board.missing]
    shown = names[:NAMED] + ([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])
    return [f"Missing runs: {len(names)} ({'; '.join(shown)})."] if names else []


def to_markdown(board: Board, tables: Sequence[Table]) -> str:
    """Return all tables under the name of the grid."""
    head = [f"## {board.title or board.name}", "", f"Data: {', '.join(board.data)}."]
    head += missing_lines(board)
    return "\n\n".join(["\n".join(head), *(table.to_markdown() for table in tables)]) + "\n"
