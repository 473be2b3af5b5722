"""Scores of a predicted mask against the truth: Dice, IoU, HD95 and ASSD, in 2-D or 3-D.

All functions take one mask of one class, ``(*space)``, and refuse a batch: ``(4, 1, 64, 64)`` is
four masks, not one object in four dimensions.

Surface
    The pixels of a mask that touch the background or the frame across a side.
Distances
    From every surface pixel of either mask to the nearest one of the other, exact, in millimetres
    if a spacing is given and in pixels otherwise. Both directions are pooled: HD95 is the 95th
    percentile of the pool, ASSD its mean.
Empty masks
    Dice and IoU are 0 if one or both are empty (the paper's rule); ``dice_both_empty_one`` is 1 for
    two empty ones. Distances are 0 for two empty masks and NaN for one: it is left out of means and
    counted.
How others differ
    medpy 0.5 has the same surface and pool and raises an error on empty masks. MONAI's HD95 is the
    larger of the two one-way percentiles, usually up to some pixels more.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.errors import DataError

Mask = NDArray[Any]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Spacing = Sequence[float] | None

SCORES = ("dice", "dice_both_empty_one", "iou", "hd95", "assd")


def dice(prediction: Mask, truth: Mask) -> float:
    """Return ``2 |P & T| / (|P| + |T|)``; 0 if either mask is empty, also if both are.

    >>> dice(np.array([1, 1, 0, 0]), np.array([0, 1, 1, 0]))
    0.5
    """
    return float(score_case(prediction, truth, distances=False)["dice"])


def dice_both_empty_one(prediction: Mask, truth: Mask) -> float:
    """Return Dice, with 1 for two empty masks: nothing was there and nothing was found."""
    return float(score_case(prediction, truth, distances=False)["dice_both_empty_one"])


def score_case(
    prediction: Mask, truth: Mask, spacing: Spacing = None, *, distances: bool = True
) -> dict[str, Any]:
    """Score one class of one case; anything but 0 is foreground.

    ``spacing`` is the size of a pixel along each dimension in millimetres. Returns all of
    ``SCORES`` (HD95 and ASSD only with ``distances``), and under ``empty`` which mask is empty:
    ``"none"``, ``"prediction"``, ``"truth"`` or ``"both"``.

    >>> square = np.zeros((9, 9), bool)
    >>> square[2:6, 2:6] = True
    >>> score_case(square, np.roll(square, 2, axis=1))["hd95"]
    2.0
    """
    p, t = _pair(prediction, truth)
    both, found, there = (int(np.count_nonzero(mask)) for mask in (p & t, p, t))
    scores = overlap_scores(both, found, there)
    empty = scores.pop("empty")
    if distances:
        pool = np.array([float("nan") if found or there else 0.0])
        pool = surface_distances(p, t, spacing) if found and there else pool
        scores["hd95"], scores["assd"] = float(np.percentile(pool, 95)), float(pool.mean())
    return {**scores, "empty": empty}


def overlap_scores(common: int, found: int, there: int) -> dict[str, Any]:
    """Return Dice, IoU and what is empty, from the pixels in both masks, predicted and true.

    >>> overlap_scores(2, 3, 4)["iou"], overlap_scores(0, 0, 0)["empty"]
    (0.4, 'both')
    """
    kinds = {(False, False): "none", (True, False): "prediction", (False, True): "truth"}
    return {
        "dice": 2 * common / max(found + there, 1),
        "dice_both_empty_one": 2 * common / (found + there) if found or there else 1.0,
        "iou": common / max(found + there - common, 1),
        "empty": kinds.get((found == 0, there == 0), "both"),
    }


def summarise(rows: Iterable[Mapping[str, Any]]) -> dict[str, float | int]:
    """Return means, standard deviations and counts of the rows that ``score_case`` gave.

    ``cases``; ``<score>`` (mean) and ``<score>_sd`` (of a sample); for distances
    ``<score>_counted``, the rows with a value; ``empty_prediction``, ``empty_truth`` and
    ``empty_both``, the rows in which exactly that was empty.
    """
    table = list(rows)
    summary: dict[str, float | int] = {"cases": len(table)}
    for score in SCORES:
        given = [row[score] for row in table if row.get(score) is not None]
        if not given and table:
            continue  # distances were not asked for
        values = np.array(given, dtype=np.float64)
        values = values[np.isfinite(values)]
        summary[score] = float(values.mean()) if len(values) else float("nan")
        summary[f"{score}_sd"] = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        if score in ("hd95", "assd"):
            summary[f"{score}_counted"] = len(values)
    for kind in ("prediction", "truth", "both"):
        summary[f"empty_{kind}"] = sum(row.get("empty") == kind for row in table)
    return summary


def summarise_by(rows: Iterable[Mapping[str, Any]], name: str) -> dict[Any, dict[str, float | int]]:
    """Return one summary for each value of a column (``class``, ``source``, ``site``), sorted.

    >>> rows = [{"site": s, "dice": d, "empty": "none"} for s, d in [("b", 0.5), ("a", 1.0)]]
    >>> {site: summary["dice"] for site, summary in summarise_by(rows, "site").items()}
    {'a': 1.0, 'b': 0.5}
    """
    table = list(rows)
    values = sorted({row[name] for row in table})
    return {value: summarise(row for row in table if row[name] == value) for value in values}


def surface(mask: Mask) -> NDArray[np.intp]:
    """Return where the surface of a mask lies, ``(point, dimension)``, in pixels.

    >>> len(surface(np.ones((4, 5), bool)))
    14
    """
    from scipy import ndimage

    inside = np.asarray(mask, dtype=bool)
    return np.argwhere(inside & ~ndimage.binary_erosion(inside))


def surface_distances(prediction: Mask, truth: Mask, spacing: Spacing = None) -> Floats:
    """Return the distances of the prediction's surface to the truth's, then those back, pooled."""
    from scipy.spatial import KDTree

    from feda3i.geometry import box_around

    p, t = _pair(prediction, truth)
    box = box_around(p | t)
    pixel = _spacing(spacing, p.ndim)
    found, there = surface(p[box]) * pixel, surface(t[box]) * pixel
    if not len(found) or not len(there):
        raise DataError("surface distances need two masks with foreground; found an empty one")
    return np.concatenate([KDTree(there).query(found)[0], KDTree(found).query(there)[0]])


def _spacing(spacing: Spacing, dimensions: int) -> Floats:
    pixel = np.ones(dimensions) if spacing is None else np.asarray(spacing, dtype=np.float64)
    if pixel.shape != (dimensions,) or not (np.isfinite(pixel).all() and (pixel > 0).all()):
        raise DataError(f"expected {dimensions} positive pixel sizes, found {spacing}")
    return pixel


def _pair(prediction: Mask, truth: Mask) -> tuple[Bools, Bools]:
    p, t = _one_mask(prediction), _one_mask(truth)
    if p.shape != t.shape:
        raise DataError(f"expected masks of the same shape, found {p.shape} and {t.shape}")
    return p, t


def _one_mask(mask: Mask) -> Bools:
    values = np.asarray(mask)
    if values.ndim > 3:
        found = f"found shape {values.shape}; score a batch mask by mask"
        raise DataError(f"expected one mask of one class, (*space), {found}")
    inside = values.astype(bool)
    # 0.3 is not foreground: a probability map would count as a mask of nearly the whole frame.
    if values.dtype.kind == "f" and not np.array_equal(values[inside], np.rint(values[inside])):
        raise DataError("expected a mask, found fractions; compare probabilities with 0.5 first")
    return inside
