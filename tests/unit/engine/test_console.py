"""The console is never silent: work before the first round, time left from the first site on."""

from io import StringIO

from rich.console import Console

from feda3i.engine.console import OFTEN, Live
from short import TINY

EVENT = {"answered": 4, "asked": 4, "loss": 0.5}


class Watch:
    """A clock that the test turns."""

    now = 100.0

    def __call__(self):
        return self.now


def log():
    console = Console(file=StringIO(), width=200)
    watch = Watch()
    return Live(console, watch), watch, console.file


def test_a_log_tells_of_the_work_and_of_the_time_left_from_the_first_site_on():
    live, watch, file = log()

    def last():
        return file.getvalue().splitlines()[-1]

    live.doing("reading the cases")
    live.begin("[own] sites", rounds=3, done=0)
    told = ["reading the cases ...", "[own] sites: round 1 of 3 begins"]
    assert file.getvalue().splitlines() == told
    watch.now += 10  # one of five parts of a round: four sites and the server
    live.site(1, 4)
    assert last() == "round 1/3  sites 1/4  140 s left"
    watch.now += OFTEN - 1
    live.site(2, 4)
    assert len(file.getvalue().splitlines()) == 3, "not a line per site"
    watch.now += 1
    live.site(3, 4)
    assert last() == "round 1/3  sites 3/4  160 s left"
    watch.now += 20
    live.round({**EVENT, "round": 1})
    assert last().endswith("round 1/3  sites 4/4  loss 0.5000  120 s left")


def test_several_classes_have_a_dice_each_and_a_collapse_is_told_once():
    live, _, file = log()
    live.begin("organs", rounds=3, done=0)
    for number, warnings in ((1, ["class 2: gone"]), (2, ["class 2: gone"]), (3, [])):
        live.scored({1: 0.91, 2: 0.0}, warnings)
        live.round({**EVENT, "round": number, "dice": 0.455})
    lines = file.getvalue().splitlines()
    assert [line for line in lines if "NOTE" in line] == ["NOTE: after round 1 class 2: gone"]
    assert "dice 0.4550 (1:0.910 2:0.000)" in lines[-1]
    assert sum("organs" in line for line in lines) == 1
    live.scored({1: 0.9}, [])
    live.round({**EVENT, "round": 3, "dice": 0.9})
    assert "dice 0.9000  " in file.getvalue().splitlines()[-1]


def test_a_resumed_run_counts_its_own_time_alone():
    live, watch, file = log()
    live.begin("demo", rounds=10, done=8)
    watch.now += 30
    live.round({**EVENT, "round": 9})
    assert file.getvalue().splitlines()[-1].endswith("30 s left")


def test_the_bar_counts_down_from_the_first_site_on():
    console = Console(force_terminal=True, width=120, record=True, file=StringIO())
    watch = Watch()
    with Live(console, watch) as live:
        live.begin("[demo]", rounds=3, done=0)
        live._bar.refresh()
        text = console.export_text(clear=True)
        assert "-:--:-- left" in text
        assert "[demo]" in text
        watch.now += 10
        live.site(1, 4)
        live._bar.refresh()
        assert "0:02:20 left" in console.export_text(clear=True)
        watch.now += 15
        live._bar.refresh()
        assert "0:02:05 left" in console.export_text(clear=True)


def test_a_run_says_what_it_does_before_its_rounds(feda3i, tmp_path):
    code, _, err = feda3i("run", "demo", *TINY, "method=fedavg", "--out", tmp_path / "r")
    assert code == 0
    lines = err.splitlines()
    assert lines[:2] == ["reading the cases ...", "drawing the masks of the noisy annotators ..."]
    assert "round 1 of 2 begins" in lines[2]
    assert "round 1/2  sites 1/2" in lines[3]
