"""Runs on slices are scored volume by volume."""

import numpy as np
import pytest

from feda3i.engine.scoring import COUNTS, join_slices
from feda3i.metrics import score_case
from feda3i.seeding import rng


def slice_rows(name, predicted, truth, k=1):
    rows = []
    for z, (p, t) in enumerate(zip(predicted, truth, strict=True)):
        counts = [int(x.sum()) for x in (p & t, p, t)]
        row = {"case": f"{name}_z{z:02}", "class": k, "site": "a", COUNTS: counts}
        rows.append(row | score_case(p, t, distances=True) | {"covered": float(p.mean())})
    return rows


def test_slices_together_score_as_their_volume_and_other_rows_stay_as_they_are():
    predicted, truth = rng(0, "slices").random((2, 6, 9, 9)) > 0.7
    truth[:3] = False  # most slices lack the class
    rows = [r for n in "ab" for k in (1, 2) for r in slice_rows(n, predicted, truth, k)]
    joined = join_slices(rows)
    whole = score_case(predicted, truth, distances=False)
    for row, named in zip(joined, (("a", 1), ("a", 2), ("b", 1), ("b", 2)), strict=True):
        assert (row["case"], row["class"], row["site"]) == (*named, "a")
        assert {name: row[name] for name in whole} == whole
        assert row["covered"] == pytest.approx(predicted.mean())
        assert np.isfinite(row["hd95"])
        assert COUNTS not in row
    plain = [{"case": "x_z1", "class": 1, "dice": 0.5}]
    assert join_slices(plain) is plain
    assert join_slices([]) == []
