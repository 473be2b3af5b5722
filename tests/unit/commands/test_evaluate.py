"""``feda3i evaluate``: rows per site and source, worst cases, distances in original pixels."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from data_files import plain_tree
from feda3i import recipe
from feda3i.core.cases import Cases, in_own_pixels
from feda3i.data.folder import folder
from feda3i.engine.run import run
from feda3i.metrics import score_case
from feda3i.report.scores import score_lines, worst_lines

SHORT = ("rounds=2", "train.epochs=2", "data.size=32", "model.width=4", "engine.workers=1")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return a tree of two sites with pictures of 96 x 64, and a run on it at 32 x 32."""
    root = tmp_path_factory.mktemp("own")
    for number, site in enumerate(("Anna", "Zoo")):
        plain_tree(root / "data" / site, 10, 100 * number, height=96, width=64)
    made = recipe.load("own", [f"data={root / 'data'}", *SHORT, "method=fedavg"])
    run(made, root / "run")
    return root


def test_sites_worst_cases_and_the_unit_are_told(own, tmp_path, feda3i):
    code, out, _ = feda3i("evaluate", own / "run", "--csv", tmp_path / "cases.csv")
    lines = out.splitlines()
    assert (code, lines[0][:7]) == (0, "4 cases")
    words = [" ".join(line.split()[:2]) for line in lines[2:5]]
    assert words == ["all 4", "site Anna", "site Zoo"]
    assert "hd95 and assd in px of the original images" in out
    assert "source" not in out  # it would say what the site says
    assert "the 4 worst by Dice" in out
    with (tmp_path / "cases.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["site"] for row in rows} == {"Anna", "Zoo"}
    worst = min(rows, key=lambda row: float(row["dice"]))
    assert worst["case"] in lines[lines.index("the 4 worst by Dice") + 1]
    for site in ("Mercy", "Nord"):  # another folder is scored site by site, too
        plain_tree(tmp_path / "new" / site, 2, 300, height=64, width=64)
    code, out, _ = feda3i("evaluate", own / "run", "--data", tmp_path / "new")
    assert (code, "site Mercy" in out, "site Nord" in out) == (0, True, True)


def test_distances_are_in_pixels_of_the_original_also_where_sides_shrink_unequally(own):
    cases, unit = in_own_pixels(folder(own / "data", size=32, cache=False).test)
    assert unit == "px of the original images"
    np.testing.assert_allclose(cases.spacing[0], (3, 2))
    square = np.zeros((32, 32), bool)
    square[4:20, 4:20] = True
    # Two small pixels down are six of the original, two to the right are four.
    for axis, expected in ((0, 6), (1, 4)):
        scores = score_case(square, np.roll(square, 2, axis=axis), cases.spacing[0])
        assert scores["hd95"] == pytest.approx(expected)


def test_millimetres_where_they_are_known():
    one = Cases(("a",), np.zeros((1, 8, 8, 1), np.uint8), np.zeros((1, 8, 8), np.uint8))
    assert in_own_pixels(one) == (one, "px")
    known = replace(one, spacing=np.array([[0.5, 0.7]]), zoom=np.ones((1, 2)))
    same, unit = in_own_pixels(known)
    assert unit == "mm"
    np.testing.assert_array_equal(same.spacing, [[0.5, 0.7]])


def test_rows_of_sources_and_classes_and_empty_masks():
    rows = [
        {"case": f"c{i}", "class": k, "dice": 0.1 * i, "iou": 0.1, "hd95": 2.0, "assd": 1.0}
        | {"dice_both_empty_one": 0.1, "empty": "none", "site": f"s{i % 2}", "source": "xyz"[i]}
        for i in range(3)
        for k in (1, 2)
    ]
    rows[0] |= {"empty": "prediction", "hd95": float("nan"), "assd": float("nan")}
    table = score_lines(rows, "mm", ("core", "rim"))
    assert [line.split("  ")[0] for line in table[1:-1]] == [
        *("all", "site s0", "site s1", "source x", "source y", "source z"),
        *("class core", "class rim"),
    ]
    assert "means over cases, 1 without a distance (one mask empty) left out" in table[-1]
    head, first, second = worst_lines(rows, "mm", show=2)
    assert head == "the 2 worst by Dice"
    assert "nothing found" in first
    assert "hd95 2.0 mm" in second
