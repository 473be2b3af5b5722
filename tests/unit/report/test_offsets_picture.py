"""The picture of offsets shows every site, before and after, and who could not tell."""

import numpy as np

from feda3i.report import plots
from feda3i.report.plots import draw_offsets, gather

EVENTS = [
    {"round": 1, "offsets": {"b": [[3.0, 0.5, 16]], "a": [[0.0, 0.0, 0]]}, "moved": {"b": [-3.0]}},
    {"round": 2, "offsets": {"c": [[-2.0, 0.4, 9]]}, "moved": {"b": [-3.0], "c": [0.0]}},
    {"round": 3},
]


def test_later_rounds_add_sites():
    found, moved = gather(EVENTS)
    assert sorted(found) == ["a", "b", "c"]
    assert moved == {"b": [-3.0], "c": [0.0]}


def test_sites_stand_in_order_and_say_what_is_unknown(tmp_path, monkeypatch):
    figures = []
    original = plots.save
    monkeypatch.setattr(plots, "save", lambda f, p: (figures.append(f), original(f, p)))
    path = tmp_path / "offsets.png"
    draw_offsets(EVENTS, path, {"a": 5.0, "b": 2.0, "c": -1.0})
    assert path.read_bytes().startswith(b"\x89PNG")
    axes = figures[0].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c", "b", "a"]
    after = next(line for line in axes.lines if line.get_label() == "trained on")
    assert np.allclose(after.get_xdata(), [-2.0, 0.0])
    assert [text.get_text() for text in axes.texts] == ["cannot tell"]
    draw_offsets(EVENTS, path, None)
    assert "true offset" not in [line.get_label() for line in figures[1].axes[0].lines]
