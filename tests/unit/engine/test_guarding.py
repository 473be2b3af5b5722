"""Capped shares and the guard."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feda3i.core.messages import Replies, Reply, cap_shares
from feda3i.engine import guarding
from feda3i.engine.events import read_events
from feda3i.engine.run import run
from feda3i.seeding import rng
from feda3i.testing import Subject, tiny_federation


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.floats(0.01, 1.0))
def test_no_share_is_above_the_cap(cases, most):
    shares = np.array(cases) / sum(cases)
    capped = cap_shares(shares, most)
    assert cap_shares(shares, 1.0) is shares
    assert capped.sum() == pytest.approx(1.0)
    assert capped.max() <= max(most, 1 / len(cases)) * (1 + 1e-12)
    free = capped < capped.max() * (1 - 1e-9)
    if free.sum() > 1:  # those below the cap keep their proportions
        assert capped[free] / capped[free].sum() == pytest.approx(shares[free] / shares[free].sum())


def test_replies_count_cases_up_to_the_cap():
    items = tuple(Reply("fit", 1, f"s{k}", cases, {}) for k, cases in enumerate((80, 10, 10)))
    assert Replies("fit", 1, items).cases.tolist() == [80, 10, 10]
    capped = Replies("fit", 1, items, max_share=0.5)
    assert capped.share_of_cases() == pytest.approx([0.5, 0.25, 0.25])
    assert capped.cases == pytest.approx([50, 25, 25])


@pytest.mark.parametrize(
    ("updates", "left_out"),
    [
        ([[1.0], [99.0]], []),  # of two, nobody can say who is wrong
        ([[0.0], [0.0], [0.0], [1.0], [2.0], [3.0], [0.0]], [3, 4, 5]),
        ([[0.0], [0.0], [0.0], [0.0]], []),
        ([[1.0], [1.0], [-1.0], [0.5]], []),
        ([[1.0], [9.0], [1.0], [8.0], [1.0]], [1, 3]),
        (rng(3, "updates").normal(size=(5, 40)) * np.array([1, 1, 2, 1, 30])[:, None], [4]),
    ],
)
def test_less_than_half_are_left_out_and_only_far_ones(updates, left_out, monkeypatch):
    monkeypatch.setattr(guarding, "_BLOCK", 7)
    updates = np.asarray(updates, dtype=np.float32)
    base = rng(0, "base").normal(size=updates.shape[1]).astype(np.float32)
    trained = np.arange(len(base)) < max(1, len(base) * 5 // 8)
    ratios = guarding.norm_ratios(base + updates, base, trained)
    assert guarding.far_off(ratios, 3.0) == left_out
    if len(base) > 1:  # by their formula: weights and buffers apart
        parts = np.split(updates, [25], axis=1)
        norms = [np.linalg.norm(part, axis=1) for part in parts]
        expected = np.maximum(*(norm / np.median(norm) for norm in norms))
        assert ratios == pytest.approx(expected, rel=1e-4)


LOUD = """
import torch
from feda3i.methods.base import Method

class Loud(Method):
    def fit(self, site):
        numbers = super().fit(site)
        if site.name == "site-1":
            with torch.no_grad():
                for parameter in site.network.parameters():
                    parameter.mul_(50)
        return numbers
"""


def test_the_run_goes_on_without_the_site_that_is_left_out(tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    engine = {"workers": 1, "device": "cpu", "guard": "leave-out"}
    guarded = Subject(f"{tmp_path / 'loud.py'}:Loud", {}).recipe(engine=engine)
    result = run(guarded, tmp_path / "run", federation=tiny_federation(4))
    events = list(read_events(result.path / "events.jsonl", "round"))
    assert all(list(event["guarded"]) == ["site-1"] for event in events)
    assert all("left out by the guard" in event["missing"]["site-1"] for event in events)
    assert all(event["answered"] == 3 for event in events)
