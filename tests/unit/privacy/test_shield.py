"""Differential privacy: clipping, noise, what is sent instead, and the account of it."""

import math

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("dp_accounting")
pytest.importorskip("cryptography")

from feda3i.contract import _StopAfter, outcome_of, tiny_federation
from feda3i.core.layout import Entry, Layout
from feda3i.core.messages import Params, Wire
from feda3i.engine.run import resume, run
from feda3i.errors import RecipeError, WireError
from feda3i.log.events import read_events
from feda3i.privacy.accountant import Spending, epsilon_of, noise_cover
from feda3i.privacy.shield import Limits, Shield, secret_normal
from feda3i.recipe import validate

SIZE = 4000
LAYOUT = Layout(
    (
        Entry("w", (SIZE,), 0, SIZE, 0, False, True),
        Entry("bn.running_var", (SIZE,), SIZE, 2 * SIZE, 0, False, False),
        Entry("n", (1,), 0, 1, 0, True, False),
    ),
    ("all",),
)
WIRE = Wire(survey=("offset", "usable_cases"), per_class=("offset", "usable_cases"),
            ranges={"offset": (-16.0, 16.0)})  # fmt: skip


def params(w, v):
    values = np.concatenate([np.full(SIZE, w), np.full(SIZE, v)]).astype(np.float32)
    return Params(values, np.array([7]))


def shield(folder, z=0.5, is_secret=False, site="a", send_loss=False):
    limits = Limits(clip=2.0, clip_statistics=6.0, noise_multiplier=z, send_loss=send_loss)
    return Shield(site, 3, folder, limits, is_secret)


@pytest.mark.parametrize("is_secret", [False, True])
def test_updates_are_clipped_and_noised_by_block(tmp_path, is_secret):
    base, after = params(1.0, 100.0), params(2.0, 101.0)  # both updates have norm sqrt(4000)
    own = shield(tmp_path, is_secret=is_secret)
    sent, numbers = own.fit(1, base, after, {"loss": 0.3}, WIRE, LAYOUT)
    assert numbers == {"loss": 0.0}
    assert sent.counts.tolist() == [7]
    for part, limit in ((slice(0, SIZE), 2.0), (slice(SIZE, None), 6.0)):
        update = (sent.values - base.values)[part].astype(np.float64)
        # all entries moved alike, so each was clipped to limit / sqrt(4000), plus the noise
        scale = 0.5 * math.sqrt(2) * 2 * limit
        drawn = (update - limit / math.sqrt(SIZE)) / scale
        assert stats.kstest(drawn, "norm").pvalue > 1e-4
    again, _ = shield(tmp_path, is_secret=is_secret).fit(1, base, after, {}, WIRE, LAYOUT)
    assert np.array_equal(again.values, sent.values)  # a repeated order costs nothing more
    with pytest.raises(WireError, match="cost privacy that was not agreed on"):
        own.fit(1, after, after, {}, WIRE, LAYOUT)


def test_noise_differs_by_site_round_and_key(tmp_path):
    base = params(1.0, 1.0)
    first = shield(tmp_path / "a").fit(1, base, base, {}, WIRE, LAYOUT)[0].values
    others = [
        shield(tmp_path / "a").fit(2, base, base, {}, WIRE, LAYOUT)[0].values,
        shield(tmp_path / "b", site="b").fit(1, base, base, {}, WIRE, LAYOUT)[0].values,
        shield(tmp_path / "c", is_secret=True).fit(1, base, base, {}, WIRE, LAYOUT)[0].values,
        shield(tmp_path / "d", is_secret=True).fit(1, base, base, {}, WIRE, LAYOUT)[0].values,
    ]
    for k, one in enumerate(others):
        assert abs(np.corrcoef(first[:SIZE], one[:SIZE])[0, 1]) < 0.1, k
    assert abs(np.corrcoef(others[2][:SIZE], others[3][:SIZE])[0, 1]) < 0.1
    assert (tmp_path / "c" / "noise.key").stat().st_mode & 0o077 == 0


def test_variances_stay_variances_and_nothing_moves_without_noise(tmp_path):
    sent, _ = shield(tmp_path, z=5.0).fit(1, params(0, 0.1), params(0, 0.1), {}, WIRE, LAYOUT)
    assert sent.values[SIZE:].min() == 0
    near = params(0.001, 1.001)
    plain, numbers = shield(tmp_path / "x", z=0.0, send_loss=True).fit(
        1, params(0, 1), near, {"loss": 0.3}, WIRE, LAYOUT
    )
    assert np.allclose(plain.values, near.values)
    assert numbers == {"loss": 0.3}


def test_survey_numbers_are_bounded_and_noised_and_counts_say_nothing(tmp_path):
    def ask(k, value, z):
        numbers = {"offset": [value, math.nan], "usable_cases": [3, 0]}
        found = shield(tmp_path / str(k), z, site=str(k))
        return found.survey(1, params(0, 0), numbers, WIRE.survey, WIRE, 9)

    assert ask(0, 99.0, 0.0) == {"offset": [16.0, 0.0], "usable_cases": [9, 9]}
    drawn = np.array([ask(k, 1.0, 0.02)["offset"] for k in range(1, 200)])
    assert drawn.std(axis=0) == pytest.approx([0.02 * math.sqrt(2) * 32] * 2, rel=0.25)
    assert drawn.mean(axis=0) == pytest.approx([1.0, 0.0], abs=0.3)
    wide = np.array([ask(k, 1.0, 50.0)["offset"] for k in range(200, 220)])
    assert np.all(np.abs(wide) <= 16)


def test_secret_draws_are_normal():
    drawn = secret_normal(b"k" * 32, "test", 20000)
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    assert not np.array_equal(drawn, secret_normal(b"k" * 32, "other", 20000))


# -- account --------------------------------------------------------------------------------------


def test_epsilon_agrees_with_the_formula_of_the_gaussian_mechanism():
    for z in (0.3, 1.0, 4.0):
        epsilon = epsilon_of(1 / z**2, 1e-5)
        a, b = 1 / (2 * z) - epsilon * z, -1 / (2 * z) - epsilon * z
        delta = stats.norm.cdf(a) - math.exp(epsilon) * stats.norm.cdf(b)
        assert delta == pytest.approx(1e-5, rel=1e-3)
    assert epsilon_of(0.0, 1e-5) == 0
    assert epsilon_of(math.inf, 1e-5) == math.inf


def test_rounds_compose_as_the_library_composes_them():
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(4.0), 20)
    ours = epsilon_of(20 / 4.0**2, 1e-5)
    assert ours == pytest.approx(PLDAccountant().compose(event).get_epsilon(1e-5), rel=1e-2)
    assert ours <= RdpAccountant().compose(event).get_epsilon(1e-5)


def test_the_sum_hides_a_site_among_the_noise_of_all():
    weights = np.array([[0.25, 0.7], [0.25, 0.1], [0.25, 0.1], [0.25, 0.1]])
    found = noise_cover(weights)
    assert found[0] == pytest.approx(math.sqrt(0.52) / 0.7)  # its worst stage
    assert found[1] == pytest.approx(2.0)
    kept = {}
    spending = Spending(2.0, blocks=2, numbers=0, kept=kept)
    spending.survey(["a"])
    rows = {"a": [0.5], "b": [0.5]}
    spending.fit(["a", "b", "lost"], rows, is_secure=False)
    assert kept["server"] == pytest.approx({"a": 0.5, "b": 0.25, "lost": 0.25})
    assert kept["models"] == pytest.approx({"a": 0.25 + 0.125, "b": 0.125, "lost": 0.0})
    secure = Spending(2.0, blocks=2, numbers=0, kept={})
    secure.fit(["a", "b"], rows, is_secure=True)
    assert secure.kept["server"] == pytest.approx({"a": 0.125, "b": 0.125})
    told = Spending(2.0, blocks=2, numbers=2, kept={})
    told.fit(["a", "b"], rows, is_secure=True)
    assert told.kept["server"]["a"] == pytest.approx(0.25 * (0.5 / 2 + 0.5))


# -- runs -----------------------------------------------------------------------------------------


def recipe_of(rounds=2, method="fedavg", options=None, privacy=None, **changes):
    return validate(
        {
            "rounds": rounds,
            "data": {"name": "contract", "size": 16},
            "model": {"name": "unet", "width": 2},
            "method": {"name": method, **(options or {})},
            "train": {"epochs": 1, "batch": 4},
            "evaluate": {"every": 100},
            "engine": {"workers": 1, "device": "cpu", "min_sites": 1},
            "privacy": {"on": True, "noise_multiplier": 0.05, **(privacy or {})},
            **changes,
        }
    )


def federation():
    return tiny_federation(sites=4, cases=2, size=16)


def test_a_private_run_states_epsilon_by_round_and_after_a_resume(tmp_path):
    recipe = recipe_of(2, "feda3i", {"t1": 1}, {"randomness": "site"})
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "r", federation=federation(), listener=_StopAfter(1))
    result = resume(tmp_path / "r", federation=federation())
    events = list(read_events(tmp_path / "r" / "events.jsonl"))
    rounds = [event for event in events if event["event"] == "round"]
    spent = [event["privacy"]["epsilon_server"] for event in rounds]
    expected = [epsilon_of(k / 0.05**2, 1e-5) for k in (1, 3)]  # the survey is in round 2
    assert spent == pytest.approx(expected)
    assert f"epsilon {expected[-1]:.3g} against the server" in result.notes[0]
    assert rounds[-1]["privacy"]["epsilon_models"] < spent[-1]
    assert not [e for e in events if e["event"] == "score" and e["split"] == "train"]


def test_with_secure_aggregation_the_server_learns_no_more_than_the_models():
    outcome = outcome_of(recipe_of(1, secure={"on": True}), federation())
    [event] = [event for event in outcome.events if event["event"] == "round"]
    assert event["privacy"]["epsilon_server"] == event["privacy"]["epsilon_models"]
    assert any("seed" in e["text"] for e in outcome.events if e["event"] == "note")
    assert event["privacy"]["epsilon_models"] == pytest.approx(epsilon_of(1 / (4 * 0.05**2), 1e-5))


@pytest.mark.parametrize(
    ("method", "options", "changes", "words"),
    [
        ("fedcorr", {}, {}, "no range for the number 'mean_loss'"),
        ("feddm", {}, {}, "further networks"),
        ("fedmix", {}, {}, "may need the sites' losses"),
        ("feda3i", {"t1": "auto"}, {}, "may need the sites' losses"),
        ("fedavg", {}, {"model": {"name": "unet", "statistics": "exact"}}, "without noise"),
    ],
)
def test_what_would_leave_without_noise_is_refused(method, options, changes, words, tmp_path):
    with pytest.raises(RecipeError, match=words):
        run(recipe_of(1, method, options, **changes), tmp_path / "r", federation=federation())


def test_a_real_site_refuses_noise_that_the_server_can_foretell(tmp_path):
    pytest.importorskip("flwr")
    from feda3i.flower.node import NodeSettings, open_data

    recipe = validate({**recipe_of().to_dict(), "data": {"name": "folder"}})
    node = NodeSettings("a", tmp_path, data=tmp_path)
    with pytest.raises(RecipeError, match="could take the noise off"):
        open_data(recipe, node)
