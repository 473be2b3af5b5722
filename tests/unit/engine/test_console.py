"""The console is never silent: work before the first round, then a line per round, or a bar."""

from io import StringIO

from rich.console import Console

from feda3i.engine.console import Live
from short import TINY

EVENT = {"answered": 4, "asked": 4, "loss": 0.5}


def test_a_log_has_a_line_per_round_with_a_dice_per_class_and_tells_a_collapse_once():
    live = Live(Console(file=StringIO(), width=200))
    live.doing("reading the cases")
    live.begin("[own] organs", rounds=3, done=0)
    for number, warnings in ((1, ["class 2: gone"]), (2, ["class 2: gone"]), (3, [])):
        live.site(1, 4)
        live.scored({1: 0.91, 2: 0.0}, warnings)
        live.round({**EVENT, "round": number, "dice": 0.455})
    numbers = "sites 4/4  loss 0.5000  dice 0.4550 (1:0.910 2:0.000)"
    assert live._console.file.getvalue().splitlines() == [
        "reading the cases ...",
        "[own] organs: round 1 of 3 begins",
        "NOTE: after round 1 class 2: gone",
        *(f"round {n}/3  {numbers}" for n in (1, 2, 3)),
    ]


def test_the_bar_moves_with_every_site_and_has_the_numbers_of_the_last_round():
    console = Console(force_terminal=True, width=120, record=True, file=StringIO())
    with Live(console) as live:
        live.begin("[demo]", rounds=3, done=1)
        live.site(1, 4)
        live._bar.refresh()
        assert live._bar.tasks[0].completed == 1.2
        text = console.export_text(clear=True)
        assert "[demo]: round 2 of 3 begins" in text
        assert "1/3 sites 1/4" in text
        live.round({**EVENT, "round": 2})
        live._bar.refresh()
        assert "2/3 sites 4/4  loss 0.5000" in console.export_text(clear=True)


def test_a_run_says_what_it_does_before_its_rounds(feda3i, tmp_path):
    code, _, err = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r")
    reads, draws, begins, *told = err.splitlines()
    assert (code, reads) == (0, "reading the cases ...")
    assert draws == "drawing the masks of the noisy annotators ..."
    assert "round 1 of 2 begins" in begins
    assert any(line.startswith("round 1/2  sites 2/2") for line in told)
