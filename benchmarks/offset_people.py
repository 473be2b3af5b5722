"""Human annotators: offsets measured from the images against those from the gold standard."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import cv2
import numpy as np
from scipy.stats import spearmanr

from feda3i.quality import SIDE, contour_offset, measure_edges
from feda3i.quality.measure import FARTHEST

FEWEST = 8


def _read(file: Path) -> np.ndarray:
    image = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise SystemExit(f"{file}: expected an image, found none that can be read")
    return image


def rows_of(folder: Path) -> list[tuple[str, str, int, float, float, float, str]]:
    """Return (modality, annotator, cases, true offset, measured, error, reason), px at 256.

    A site is an annotator on the images of one modality. b0 comes from the gold masks of the images
    with even numbers, offsets from the others.
    """
    with (folder / "index.csv").open() as file:
        modality = {row["name"]: row["modality"] for row in csv.DictReader(file)}
    rows = []
    for kind in sorted(set(modality.values())):
        names = sorted(name for name, one in modality.items() if one == kind)
        images = {name: _read(folder / "images" / f"{name}.png") for name in names}
        gold = {name: _read(folder / "masks" / f"{name}.png") > 0 for name in names}
        even = names[::2]
        trusted = measure_edges([images[n] for n in even], [gold[n] for n in even])
        for who in sorted((folder / "annotators").iterdir()):
            own = [name for name in names[1::2] if (who / f"{name}.png").exists()]
            if len(own) < FEWEST:
                continue
            masks = [_read(who / f"{name}.png") > 0 for name in own]
            pairs = zip(masks, own, strict=True)
            true = np.nanmedian([contour_offset(mask, gold[name]) for mask, name in pairs])
            side = max(masks[0].shape)
            found, scale = measure_edges([images[n] for n in own], masks), SIDE / side
            offset, error = found.offset - trusted.offset, np.hypot(found.error, trusted.error)
            numbers = (float(true) * scale, offset * scale, float(error) * scale)
            why = found.reason or trusted.reason
            if abs(trusted.offset) * scale > FARTHEST:
                why = f"trusted masks lie {trusted.offset * scale:+.1f} px from the border"
            rows.append((kind, who.name, len(own), *numbers, why))
    return rows


def table(folder: Path) -> str:
    """Return one line per modality as Markdown."""
    lines = [
        "| modality | annotators | can be told | true offsets, px | Spearman | error, px "
        "| sign right where two errors from 0 | why not |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = rows_of(folder)
    for kind in sorted({row[0] for row in rows}):
        here = [row for row in rows if row[0] == kind]
        known = np.array([row[3:6] for row in here if not row[6]]).reshape(-1, 3)
        told = [re.sub(r"[-+]?\d[\d.]*", "N", row[6].split(",")[0]) for row in here if row[6]]
        reasons = [f"{told.count(one)} x {one}" for one in sorted(set(told))]
        true, found, error = known.T
        rank = f"{spearmanr(true, found).statistic:.2f}" if len(known) > 3 else "-"
        sure = np.abs(found) > 2 * error
        right = int((np.sign(found) == np.sign(true))[sure].sum())
        miss = f"{np.abs(found - true).mean():.1f}" if len(known) else "-"
        spread = [row[3] for row in here]
        lines.append(
            f"| {kind} | {len(here)} | {len(known)} | {min(spread):+.1f} to {max(spread):+.1f} "
            f"| {rank} | {miss} | {right} of {int(sure.sum())} | {'; '.join(reasons)} |"
        )
    return "\n".join(lines)
