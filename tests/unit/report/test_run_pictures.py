"""Pictures are read back: names, groups, ticks, scores and bands are where a reader looks."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from feda3i import metrics
from feda3i.report import plots, survey_plot
from feda3i.report.survey_plot import draw_survey
from feda3i.seeding import rng


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Keep the figures that are saved."""
    figures = []
    for module in (survey_plot, plots):
        original = module.save

        def keep(figure, path, original=original):
            figure.draw_without_rendering()
            figures.append(figure)
            original(figure, path)
            assert path.read_bytes().startswith(b"\x89PNG")

        monkeypatch.setattr(module, "save", keep)
    return figures


def survey(sites, mu, parts=1, spread=0.3):
    noise = rng(0, "plot").normal(0, 0.05, (len(sites), 2))
    q = 0.3 * np.exp(spread * np.outer(mu, [1, -1]) + noise)
    labels = ["larger" if value > 0 else "smaller" for value in mu]
    part = {"q": q.tolist(), "statistic": "mean", "grouping": {"labels": labels}}
    return {"sites": sites, "parts": [{**part, "class_number": k + 1} for k in range(parts)]}


def boxes(texts, figure):
    renderer = FigureCanvasAgg(figure).get_renderer()  # closing the figure took its own away
    found = [Text.get_window_extent(text, renderer) for text in texts if text.get_text()]
    return [box for box in found if box.width]


def apart(found):
    return not any(a.overlaps(b) for a, b in combinations(found, 2))


HOSPITALS = ["Charité", "Hôpital Saint-Louis", "Mayo", "Santa Maria della Misericordia, Udine"]


@pytest.mark.parametrize("count", [4, 20, 40])
def test_sites_are_named_and_no_name_covers_another(drawn, tmp_path, count):
    sites = [*HOSPITALS, *[f"site-{k}" for k in range(count - 4)]]
    draw_survey(survey(sites, np.linspace(-3, 3, count)), tmp_path / "s.png", None)
    axes = drawn[0].axes[0]
    names = [text for text in axes.texts if text.get_text() in map(plots.short, sites)]
    assert {text.get_text() for text in names} == set(map(plots.short, sites))
    assert apart(boxes(names, drawn[0]))


def test_what_has_no_room_is_counted(drawn, tmp_path):
    sites = [f"one of a great many sites {k}" for k in range(60)]
    draw_survey(survey(sites, np.full(60, 0.1)), tmp_path / "s.png", None)
    texts = [text.get_text() for text in drawn[0].axes[0].texts]
    named = sum(text.startswith("one of") for text in texts)
    assert f"{60 - named} more without room for a name" in texts


def test_groups_differ_in_shape_and_colour_without_the_true_mu(drawn, tmp_path):
    draw_survey(survey(HOSPITALS, [1, -1, 2, -2]), tmp_path / "s.png", None)
    axes = drawn[0].axes[0]
    larger, smaller = axes.collections
    assert not np.array_equal(larger.get_paths()[0].vertices, smaller.get_paths()[0].vertices)
    assert not np.allclose(larger.get_facecolor(), smaller.get_facecolor())
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["draws larger (2)", "draws smaller (2)"]
    words = " ".join(text.get_text() for text in axes.texts)
    assert "q1 = q2: errs to neither side" in words
    assert "draws too small" in words


def test_the_true_mu_fills_and_groups_stay_visible(drawn, tmp_path):
    mu = dict(zip(HOSPITALS, [1.0, -1.0, 2.0, -2.0], strict=True))
    draw_survey(survey(HOSPITALS, list(mu.values()), parts=2), tmp_path / "s.png", mu)
    assert [axes.get_title() for axes in drawn[0].axes[:2]] == ["class 1, mean", "class 2, mean"]
    for axes in drawn[0].axes[:2]:
        larger, smaller = axes.collections
        assert larger.get_array().tolist() == [1.0, 2.0]
        assert not np.allclose(larger.get_edgecolor(), smaller.get_edgecolor())


@pytest.mark.parametrize("spread", [0.01, 0.1, 0.5, 2.0])
def test_tick_labels_do_not_overlap(drawn, tmp_path, spread):
    draw_survey(survey(HOSPITALS, [1, -1, 2, -2], spread=spread), tmp_path / "s.png", None)
    axes = drawn[0].axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        shown = [tick.label1 for tick in axis.get_major_ticks()]
        assert len(boxes(shown, drawn[0])) >= 2
        assert apart(boxes(shown, drawn[0]))


def test_sites_that_were_not_rated_are_named_in_the_legend(drawn, tmp_path):
    found = survey(HOSPITALS, [1, -1, 2, -2])
    found["parts"][0]["q"][0] = [None, None]
    found["parts"][0]["grouping"]["labels"][0] = "unrated"
    draw_survey(found, tmp_path / "s.png", None)
    legend = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert legend[-1] == "not rated (1)\nCharité"


def test_each_panel_says_its_dice(drawn, tmp_path):
    truth = np.zeros((3, 16, 16), np.uint8)
    truth[:, 4:12, 4:12] = 1
    found = {"truth": truth, "A": np.roll(truth, 2, axis=1), "B": np.zeros_like(truth)}
    images = np.full((3, 16, 16, 1), 99, np.uint8)
    plots.draw_cases(images, found, tmp_path / "c.png", titles=["x", "y", "z"], truth="truth")
    expected = metrics.dice(found["A"][0], truth[0])
    for axes in drawn[0].axes:
        assert [text.get_text() for text in axes.texts] == [f"Dice {expected:.2f}", "Dice 0.00"]
        assert len({text.get_color() for text in axes.texts}) == 2
    plots.draw_cases(images, found, tmp_path / "c.png")
    assert not drawn[1].axes[0].texts


def rounds(values, survey_at=None):
    events = enumerate(values, start=1)
    return [
        {"round": k, "dice": v, "survey": {} if k != survey_at else {"x": 1}} for k, v in events
    ]


def test_curves_have_a_band_over_seeds(drawn, tmp_path):
    seeds = [rounds([0.1, 0.5, 0.8], 3), rounds([0.3, None, 0.6], 3)]
    plots.draw_curves({"FedA3I": seeds, "alone": [rounds([0.2, 0.2, 0.2])]}, tmp_path / "c.png")
    axes = drawn[0].axes[0]
    mean, alone = axes.lines[:2]
    assert mean.get_xdata().tolist() == [1, 3], "rounds in which every seed was scored"
    assert mean.get_ydata().tolist() == pytest.approx([0.2, 0.7])
    assert alone.get_ydata().tolist() == [0.2, 0.2, 0.2]
    (band,) = axes.collections
    assert band.get_datalim(axes.transData).intervaly.tolist() == pytest.approx([0.1, 0.8])
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["FedA3I (mean of 2 seeds)", "alone"]
    assert legend.get_title().get_text() == "band: lowest to highest seed"
    assert [text.get_text() for text in axes.texts] == ["survey"]


@pytest.mark.parametrize("count", [3, 60, 230])
def test_rows_of_the_weights_do_not_overlap(drawn, tmp_path, count):
    weights = {f"hospital-{k:03}": [1 / count] * 10 for k in range(count)}
    plots.draw_weights(weights, [f"down{k}" for k in range(10)], tmp_path / "w.png", None)
    ticks = [tick.label1 for tick in drawn[0].axes[0].yaxis.get_major_ticks()]
    assert apart(boxes(ticks, drawn[0]))
    assert ticks[0].get_text() == "hospital-000"
