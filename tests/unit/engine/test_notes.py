"""A run says when it is not what its name promises: a phase never came, or training went wrong."""

import pytest

from feda3i.engine.notes import final_notes, note_of_losses, note_of_masks, notes_before
from feda3i.engine.run import resume, run
from feda3i.errors import RecipeError
from feda3i.methods import REGISTRY
from feda3i.methods.base import make_method
from listeners import StopAfter
from short import SHORT


@pytest.mark.parametrize(
    ("method", "before", "after"),
    [
        (("feda3i", "method.t1=8", "rounds=2"), "would begin in round 9", "never acted"),
        (("feda3i", "method.t1=1", "rounds=3"), "", ""),
        (("adele", "method.points=2", "method.r=1", "rounds=3"), "", "of masks never acted"),
        (("fedavg", "train.lr=10", "rounds=2", "noise=none", "train.epochs=2"), "", "diverged"),
    ],
    ids=["a survey that never comes", "a survey that comes", "a switch in the run", "divergence"],
)
def test_what_is_told_on_the_console_and_in_the_result(
    tiny_recipe, tmp_path, method, before, after
):
    listener = StopAfter(99)
    chosen = tiny_recipe(f"method={method[0]}", *method[1:])
    result = run(chosen, tmp_path / "run", listener=listener)
    assert any(before in note for note in listener.notes) == bool(before)
    told = [note for note in result.notes if "acted" in note or "diverged" in note]
    assert any(after in note for note in told) == bool(after)
    assert final_notes(result.path / "events.jsonl") == result.notes
    assert resume(result.path).notes == result.notes


@pytest.mark.parametrize("name", REGISTRY.names())
def test_no_method_promises_a_phase_in_a_run_of_one_round_that_it_cannot_keep(name):
    phases = make_method(name, {}).phases(1, {})
    late = [phase for phase, first in phases.items() if first is not None and first > 1]
    assert len(notes_before(make_method(name, {}), 1)) == len(late)
    assert bool(late) == (name in {"adele", "feda3i", "fedcorr", "feddm", "fednoro", "rmd"})
    assert notes_before(make_method(name, SHORT.get(name, {})), 100) == []


def test_what_is_switched_off_is_no_phase_and_options_without_effect_are_errors():
    assert make_method("feda3i", {"weighting": "fedavg"}).phases(1, {}) == {}
    assert make_method("feddm", {"ratio": 0}).phases(1, {}) == {"merging without conflict": 2}
    assert make_method("rmd", {"tau": 0, "weight": 0}).phases(1, {}) == {}
    with pytest.raises(RecipeError, match="r = 'share'"):
        make_method("feda3i", {"weighting": "intra", "r": 0.3})


def test_lost_losses_and_a_model_that_finds_nothing_or_everything_are_told():
    lost = [[0.7, 3.0], [1e6], [1e6, 1e6], [0.7, float("inf")]]
    assert all(note_of_losses(losses) for losses in lost)
    assert not any(map(note_of_losses, ([], [0.7, 0.5, 0.3], [0.7, 1.4], [-0.2, 0.1])))
    for rows, said in (
        ((("prediction", 0.0), ("both", 0.0)), "predicts nothing in any of the 1"),
        ((("none", 1.0), ("truth", 1.0)), "predicts no background"),
        ((("none", 0.2), ("prediction", 0.0)), ""),
        ((), ""),
    ):
        notes = note_of_masks([{"empty": empty, "covered": share} for empty, share in rows])
        assert said in "".join(notes)
        assert bool(notes) == bool(said)
