"""The tables of ``offset.py``: how well offsets are measured, and what redrawing does to masks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import spearmanr

Row = dict[str, Any]
LARGE = 2.0  # px at 256: smaller offsets have no sign worth telling


def table(rows: list[Row]) -> str:
    """Return all tables as Markdown."""
    parts = [_accuracy(rows), _ways(rows, "measured"), _ways(rows, "four"), _redrawn(rows)]
    return "\n\n".join(parts) if rows else "nothing was measured"


def _places(rows: list[Row]) -> Iterable[tuple[str, str, list[Row]]]:
    for data, noise in sorted({(row["data"], row["noise"]) for row in rows}):
        yield data, noise, [r for r in rows if (r["data"], r["noise"]) == (data, noise)]


def _spread(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def _accuracy(rows: list[Row]) -> str:
    lines = [
        "| data | annotators | seeds | cannot tell | Spearman with mu | error against mu, px "
        "| error against drawn, px | sign | within 2 errors of drawn | b0, px |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for data, noise, here in _places(rows):
        cells: dict[str, list[float]] = {}
        for row in here:
            known = np.array([one is not None for one in row["offset"]])
            mu, drawn = (np.array(row[key])[known] for key in ("mu", "drawn"))
            offset, error = (np.array(row[key], dtype=float)[known] for key in ("offset", "error"))
            large = np.abs(drawn) > LARGE
            is_right = (np.sign(offset) == np.sign(drawn))[large]
            found = {
                "unknown": float((~known).sum()),
                "rank": spearmanr(offset, mu).statistic if np.ptp(mu) else np.nan,
                "mu": np.abs(offset - mu).mean(),
                "drawn": np.abs(offset - drawn).mean(),
                "sign": is_right.mean() if large.any() else np.nan,
                "held": (np.abs(offset - drawn) <= 2 * error).mean(),
                "b0": row["b0"],
            }
            for key, value in found.items():
                cells.setdefault(key, []).append(float(value))
        text = [f"{sum(cells['unknown']):.0f} of {sum(len(r['mu']) for r in here)}"]
        text += [_spread(cells["rank"], 3), _spread(cells["mu"], 1), _spread(cells["drawn"], 1)]
        text += [f"{np.mean(cells[key]):.0%}" for key in ("sign", "held")]
        text.append(f"{np.mean(cells['b0']):+.1f}")
        lines.append(f"| {data} | {noise} | {len(here)} | {' | '.join(text)} |")
    return "\n".join(lines).replace("nan ± nan", "-").replace("nan%", "-")


def _ways(rows: list[Row], key: str) -> str:
    """Return the error of each way to measure, with its own b0, and its slope."""
    names = list(rows[0]["trusted"])
    number = "16 cases" if key == "measured" else "4 cases"
    lines = [
        f"| {number} a site: error against drawn in px (slope) | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for data in sorted({row["data"] for row in rows}):
        here = [row for row in rows if row["data"] == data and row["noise"] != "clean"]
        cells = []
        for name in names:
            found, drawn = [], []
            for row in here:
                found += [site[name] - row["trusted"][name] for site in row[key]]
                drawn += row["drawn"]
            pairs = np.array([found, drawn], dtype=float)
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            slope = np.polyfit(pairs[1], pairs[0], 1)[0]
            cells.append(f"{np.abs(pairs[0] - pairs[1]).mean():.2f} ({slope:.2f})")
        lines.append(f"| {data} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _redrawn(rows: list[Row]) -> str:
    names = list(rows[0]["dice"][0])
    lines = [
        "| Dice to the clean masks, % | annotators | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for data, noise, here in _places(rows):
        cells = []
        for name in names:
            by_seed = [100 * np.mean([site[name] for site in row["dice"]]) for row in here]
            cells.append(_spread([float(one) for one in by_seed], 1))
        lines.append(f"| {data} | {noise} | {' | '.join(cells)} |")
    return "\n".join(lines)
