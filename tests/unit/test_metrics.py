import math

import medpy.metric.binary as medpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from monai.metrics import compute_average_surface_distance, compute_dice, compute_iou
from scipy.ndimage import gaussian_filter

from feda3i import metrics
from feda3i.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:monai")

EMPTY = np.zeros((12, 16), bool)
SQUARE = EMPTY.copy()
SQUARE[3:8, 4:9] = True

masks = arrays(bool, (7, 9), elements=st.booleans())


def wavy(seed, shape):
    """Return a mask of smooth islands, some of them cut by the frame."""
    rng = np.random.default_rng(seed)
    field = gaussian_filter(rng.normal(size=shape), 2.5)
    return field > np.quantile(field, rng.uniform(0.5, 0.97))


def by_hand(p, t, spacing):
    """Return pooled distances from the definition: every pair of surface pixels."""

    def border(mask):
        padded, steps = np.pad(mask, 1), np.vstack([np.eye(mask.ndim, dtype=int)] * 2)
        steps[mask.ndim :] *= -1
        return [at for at in np.argwhere(mask) if not all(padded[tuple(at + 1 + s)] for s in steps)]

    a, b = (np.array(border(mask)) * spacing for mask in (p, t))
    apart = np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=-1))
    return np.concatenate([apart.min(axis=1), apart.min(axis=0)])


@settings(max_examples=60, deadline=None)
@given(masks, masks)
def test_overlap_follows_the_formula_and_the_empty_rule(p, t):
    both = p.sum() + t.sum()
    expected = 2 * (p & t).sum() / both if both else 0.0
    assert metrics.dice(p, t) == pytest.approx(expected)
    assert metrics.dice_both_empty_one(p, t) == pytest.approx(expected if both else 1.0)
    iou = metrics.score_case(p, t, distances=False)["iou"]
    assert iou == pytest.approx(expected / (2 - expected))
    assert metrics.dice(p, t) == metrics.dice(t, p)


@settings(max_examples=60, deadline=None)
@given(masks.filter(np.any), masks.filter(np.any), st.tuples(*[st.floats(0.2, 5)] * 2))
def test_distances_follow_the_definition(p, t, spacing):
    pool = by_hand(p, t, np.array(spacing))
    np.testing.assert_allclose(metrics.surface_distances(p, t, spacing), pool, rtol=1e-12)
    scores = metrics.score_case(p, t, spacing)
    assert scores["hd95"] == pytest.approx(np.percentile(pool, 95), rel=1e-12)
    assert scores["assd"] == pytest.approx(pool.mean(), rel=1e-12)
    assert metrics.score_case(t, p, spacing)["hd95"] == pytest.approx(scores["hd95"])
    same = metrics.score_case(p, p, spacing)
    assert same["assd"] == same["hd95"] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("shape", "spacing"),
    [((50, 64), None), ((50, 64), (0.4, 1.7)), ((18, 24, 20), None), ((18, 24, 20), (3.0, 0.7, 1))],
)
def test_equals_medpy_and_where_they_agree_monai(seed, shape, spacing):
    p, t = wavy(seed, shape), wavy(seed + 100, shape)
    scores = metrics.score_case(p, t, spacing)
    assert scores["dice"] == pytest.approx(medpy.dc(p, t))
    assert scores["iou"] == pytest.approx(medpy.jc(p, t))
    assert scores["hd95"] == pytest.approx(medpy.hd95(p, t, spacing), rel=1e-12)
    assert scores["assd"] == pytest.approx(medpy.assd(p, t, spacing), rel=1e-12)
    a, b = (torch.from_numpy(mask.astype(np.float32))[None, None] for mask in (p, t))
    assert scores["dice"] == pytest.approx(compute_dice(a, b).item(), rel=1e-6)
    assert scores["iou"] == pytest.approx(compute_iou(a, b).item(), rel=1e-6)
    millimetres = None if spacing is None else [float(s) for s in spacing]
    mean = compute_average_surface_distance(
        a, b, include_background=True, symmetric=True, spacing=millimetres
    )
    assert scores["assd"] == pytest.approx(mean.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("p", "t", "kind"),
    [(EMPTY, SQUARE, "prediction"), (SQUARE, EMPTY, "truth"), (EMPTY, EMPTY, "both")],
)
def test_empty_masks_follow_one_rule_where_others_break(p, t, kind):
    scores = metrics.score_case(p, t)
    assert scores["empty"] == kind
    assert scores["dice"] == scores["iou"] == 0
    with pytest.raises(RuntimeError):
        medpy.hd95(p, t)
    assert scores["dice_both_empty_one"] == (kind == "both")
    expected = 0.0 if kind == "both" else math.nan
    assert [scores["hd95"], scores["assd"]] == pytest.approx([expected] * 2, nan_ok=True)


def test_any_nonzero_value_is_foreground_and_place_in_the_frame_does_not_matter():
    bytes_ = SQUARE.astype(np.uint8) * 255
    assert metrics.score_case(bytes_, SQUARE) == metrics.score_case(SQUARE, SQUARE)
    other = np.roll(SQUARE, 2, axis=1)
    moved = metrics.score_case(np.roll(SQUARE, 3, axis=0), np.roll(other, 3, axis=0))
    assert moved == metrics.score_case(SQUARE, other)
    assert moved["hd95"] == 2


def test_summary_counts_what_has_no_distance():
    pairs = [(SQUARE, SQUARE), (np.roll(SQUARE, 1, 0), SQUARE), (EMPTY, SQUARE), (EMPTY, EMPTY)]
    rows = [{"site": f"s{i % 2}", **metrics.score_case(p, t)} for i, (p, t) in enumerate(pairs)]
    summary = metrics.summarise(rows)
    scores = np.array([row["dice"] for row in rows])
    assert summary["dice"] == pytest.approx(scores.mean())
    assert summary["dice_sd"] == pytest.approx(scores.std(ddof=1))
    assert summary["dice_both_empty_one"] == pytest.approx(scores.mean() + 0.25)
    given = [row["hd95"] for row in rows if not math.isnan(row["hd95"])]
    assert len(given) == summary["hd95_counted"] == summary["assd_counted"] == 3
    assert summary["hd95"] == pytest.approx(np.mean(given))
    assert [summary[f"empty_{kind}"] for kind in ("prediction", "truth", "both")] == [1, 0, 1]
    sites = metrics.summarise_by(rows, "site")
    assert {site: found["cases"] for site, found in sites.items()} == {"s0": 2, "s1": 2}
    assert sites["s0"]["hd95_counted"] == 1
    assert math.isnan(sites["s0"]["hd95_sd"])


def test_summary_takes_missing_values_as_written_to_json():
    summary = metrics.summarise([{"dice": 0.5, "hd95": None}, {"dice": 0.7, "hd95": 3.0}])
    assert (summary["hd95"], summary["hd95_counted"]) == (3.0, 1)
    overlap = metrics.score_case(SQUARE, EMPTY, distances=False)
    assert set(overlap) == {"dice", "dice_both_empty_one", "iou", "empty"}
    assert "hd95" not in metrics.summarise([overlap])
    assert math.isnan(metrics.summarise([])["dice"])


BATCH = np.stack([SQUARE, SQUARE, EMPTY, SQUARE])[:, None]


@pytest.mark.parametrize(
    ("prediction", "truth", "spacing", "message"),
    [
        *[(SQUARE, SQUARE, s, "2 positive pixel sizes") for s in ((1.0,), (1, 0), (1, math.nan))],
        (SQUARE, SQUARE[:, 1:], None, r"same shape, found \(12, 16\) and \(12, 15\)"),
        (BATCH, BATCH, None, r"\(4, 1, .*mask by mask"),
        (0.3 * SQUARE, SQUARE, None, "found fractions"),
        (np.where(SQUARE, np.nan, 0.0), SQUARE, None, "found fractions"),
    ],
)
def test_what_is_no_mask_is_named(prediction, truth, spacing, message):
    with pytest.raises(DataError, match=message):
        metrics.score_case(prediction, truth, spacing)
