"""The report of redrawn masks: offsets before and after; contours if pixels are asked for."""

import re

import numpy as np
import pytest

from fake_runs import events_of, fake_run, write_events
from feda3i.errors import RunError
from feda3i.quality import shift_mask
from feda3i.report.build import report_page
from feda3i.report.compare import part
from feda3i.report.gallery import _redrawn, drawn
from feda3i.report.runs import read_run
from feda3i.testing import tiny_federation


def run_with(tmp_path, **facts):
    path = fake_run(tmp_path / "run", method="redraw", sites=3)
    events = events_of(path)
    next(event for event in events if event["event"] == "round").update(facts)
    write_events(path, events)
    return read_run(path)


def test_every_site_is_shown_before_and_after(tmp_path):
    log = run_with(
        tmp_path,
        offsets={
            "site-01": [[-2.5, 0.3, 8, 30.0]],
            "site-02": [[0.0, 0.0, 0, 0.0]],
            "site-03": [[4.5, 1, 9, 30.0]],
        },
        moved={"site-01": [2.5], "site-02": [0.0], "site-03": [-4.0]},
    )
    page = report_page([log])
    assert "Masks redrawn" in page
    assert "2 of 3 sites moved their contours, 1 cannot tell" in page
    assert "site-03: drawn +4.5 ± 1.0 px at 256, trained on +0.5" in page
    row = re.search(r"<tr[^>]*>(?:(?!</tr>).)*cannot tell.*?</tr>", page, re.S)
    assert "site-02" in row.group()
    assert "data:image" not in page


def test_damaged_numbers_are_refused_and_other_runs_have_no_such_section(tmp_path):
    assert "Masks redrawn" not in report_page([read_run(fake_run(tmp_path / "plain"))])
    with pytest.raises(RunError, match="offsets"):
        run_with(tmp_path, offsets={"site-01": [["x", 1, 2]]}, moved={})


def test_the_gallery_shows_contours_before_and_after():
    clean = tiny_federation()
    masks = np.stack([shift_mask(mask, 2.0) for mask in clean.train.masks]).astype(np.uint8)
    federation = clean.with_masks(masks)
    moved = {"site-2": [-16.0], "site-3": [0.0], "site-1": [-8.0]}
    pictures = _redrawn(moved, federation, 3)
    assert [one.site for one in pictures] == ["site-2", "site-1", "site-2"]
    first = pictures[0]
    k = int(federation.sites["site-2"][0])
    assert first.case == federation.train.ids[k]
    assert np.array_equal(first.masks["given"], masks[k])
    assert np.array_equal(first.masks["redrawn"] > 0, shift_mask(masks[k], -2.0))
    before, after = re.search(
        r"Dice with the clean mask ([\d.]+), now ([\d.]+)", first.words
    ).groups()
    assert float(before) < float(after)
    shown = part("strip", "Masks redrawn", map(drawn, pictures))
    assert shown.count('class="redrawn"') == shown.count('class="given"') == 3
    assert "moved -2.0 px" in shown
    assert np.array_equal(federation.train.masks, masks), "the given masks stay"


def test_moves_are_told_in_pixels_at_256():
    federation = tiny_federation()
    (first,) = _redrawn({"site-1": [16.0]}, federation, 1)
    given = federation.train.masks[0]
    assert np.array_equal(first.masks["redrawn"] > 0, shift_mask(given, 16.0 * 32 / 256))
    assert "moved +2.0 px" in first.words
