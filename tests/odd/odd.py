"""``make odd N=2000``: odd inputs through the real entry of the program, judged by what comes out.

Prints counts by exit code and everything wrong; an input is known by its seed and number.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest import mock

from odd_commands import OUT, Odd, odd_input

from data_files import plain_tree
from feda3i import cli, recipe
from feda3i.bench.result import result_of
from feda3i.engine.run import run
from listeners import StopAfter
from short import TINY

MEMORY = 8 * 2**30
PATIENCE = 60.0  # seconds before an input gets Ctrl-C
LONG_ENOUGH = 2.0  # before work that is rightly long gets it
GRACE = 30.0  # that a command may take to end after Ctrl-C


class Hang(BaseException):
    """An input did not end, not even after Ctrl-C."""


@dataclass
class Verdict:
    """What an input did: exit code, seconds, output, and what is wrong with that."""

    odd: Odd
    code: int | None
    seconds: float
    output: str
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the case for a report."""
        shown = [a if len(a) < 80 else f"{a[:60]}...({len(a)})" for a in self.odd.arguments]
        return (
            f"{self.odd.kind}: feda3i {shown} [{self.odd.about}]\n  exit {self.code}, "
            f"{self.seconds:.1f} s: {'; '.join(self.wrong)}\n  "
            + "\n  ".join(self.output.strip()[-1500:].splitlines())
        )


def judge(seed: int, number: int, good: Path, parent: Path, is_quick: bool = False) -> Verdict:
    """Make input ``number`` of a seed in a folder of its own, run it, and judge it.

    With ``is_quick`` only kinds of inputs are made that end before they train.
    """
    folder = Path(tempfile.mkdtemp(prefix="odd-", dir=parent))
    work, temporary = folder / "work", folder / "tmp"
    work.mkdir()
    temporary.mkdir()
    try:
        odd = odd_input(work, good, Random(f"{seed} {number}"), is_quick)
        before = _contents(work)
        verdict = _run(odd, work, temporary)
        _judge_files(verdict, before, _contents(work), list(temporary.iterdir()))
        return verdict
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(odd: Odd, work: Path, temporary: Path) -> Verdict:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="strict", write_through=True)
    started, wrong, code = time.monotonic(), [], None
    with (
        _place(work, temporary, odd.arguments),
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        _Alarm(odd.is_long) as alarm,
    ):
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else None
        except Hang:
            wrong.append("hangs")
        except BaseException:
            wrong.append("escaped: " + traceback.format_exc()[-1500:])
    output = stream.buffer.getvalue().decode("utf-8", "replace")
    seconds = time.monotonic() - started
    if code not in (0, 1, 2, 130) and not wrong:
        wrong.append(f"exit code {code}")
    if alarm.waited or (code == 130 and not alarm.rang):
        wrong.append("had to be interrupted" if alarm.rang else "interrupted by nobody")
    # Python itself drops an interrupt that falls into the callback of a weak reference.
    said = re.sub(r"Exception ignored in: .*?\nKeyboardInterrupt: *\n", "", output, flags=re.S)
    wrong += [word for word in ("Traceback", "this is a bug in feda3i") if word in said]
    if "this is a bug" in output:
        details = sorted(temporary.glob("feda3i-*.txt"))
        output += details[-1].read_text("utf-8")[-1800:] if details else ""
    if code in (1, 2) and not output.strip():
        wrong.append("fails without a word")
    return Verdict(odd, code, seconds, output, wrong)


def _judge_files(
    verdict: Verdict, before: dict[str, str], after: dict[str, str], left: list[Path]
) -> None:
    arguments = verdict.odd.arguments
    kept = {name: sha for name, sha in before.items() if not name.startswith(f"{OUT}/")}
    changed = [name for name, sha in kept.items() if after.get(name) != sha]
    allowed = re.compile(rf"{OUT}|y{{9}}|ä|.*(__pycache__|/\.feda3i-cache/|/\.feda3i\.lock$)")
    written = [name for name in after if name not in before and not allowed.match(name)]
    if changed and arguments[0] != "resume":
        verdict.wrong.append(f"changed inputs: {changed[:3]}")
    if written and "--out" in arguments and "" not in arguments:  # "" is the working directory
        verdict.wrong.append(f"wrote elsewhere: {written[:3]}")
    if more := [path.name for path in left if path.suffix != ".txt"]:
        verdict.wrong.append(f"left behind: {more[:3]}")


def _contents(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@contextlib.contextmanager
def _place(work: Path, temporary: Path, arguments: list[str]) -> Iterator[None]:
    """Stand in the input's folder with its arguments, a home and a place for temporary files."""
    home = str(work / OUT)
    places = {"HOME": home, "XDG_CACHE_HOME": home, "TMPDIR": str(temporary)}
    with (
        mock.patch.dict(os.environ, places),
        mock.patch.object(sys, "argv", ["feda3i", *arguments]),
        mock.patch.object(tempfile, "tempdir", str(temporary)),
        contextlib.chdir(work),
    ):
        yield


class _Alarm:
    """Press Ctrl-C on work that is rightly long, or after a while, and give up on what ignores it.

    Work is long as long as it works: a command that waits (for a pipe, a lock) is not at work.
    """

    def __init__(self, is_long: bool) -> None:
        self.is_long = is_long
        self.rang = self.waited = False
        self._started, self._before = time.monotonic(), time.process_time()

    def __enter__(self) -> _Alarm:
        self._alarm = signal.signal(signal.SIGALRM, self.ring)
        self._interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, LONG_ENOUGH)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._alarm)
        signal.signal(signal.SIGINT, self._interrupt)

    def ring(self, _number: int, _frame: object) -> None:
        if self.rang:
            raise Hang
        is_over = time.monotonic() - self._started > PATIENCE
        now = time.process_time()
        is_working, self._before = now - self._before > 0.02, now
        if not is_over and not (self.is_long and is_working):
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            return
        self.rang, self.waited = True, not (self.is_long and is_working)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        os.kill(os.getpid(), signal.SIGINT)


# -- good things to make odd ones of: runs, a model, pictures, masks, prepared sets, plug-ins -----

PLUGINS = {
    "syntax.py": "def broken(:",
    "exits.py": "raise SystemExit(3)",
    "thing.py": "Thing = 5\ndef fails(**options):\n    raise LookupError('no')\n",
    "method.py": (
        '"""Own: fails in training; nothing leaves the site."""\n'
        "from feda3i.methods.base import Method\n"
        "class Thing(Method):\n"
        "    def fit(self, site):\n"
        "        return {}['x']\n"
    ),
    "network.py": (
        "from torch import nn\n"
        "class Thing(nn.Module):\n"
        "    def __init__(self, channels=3, classes=1):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Conv2d(channels, classes, 1)\n"
        "    def forward(self, images):\n"
        "        return self.layer(images).nothing\n"
    ),
    "noise.py": (
        "class Thing:\n"
        "    def __init__(self, mu=0, sigma=0):\n"
        "        pass\n"
        "    def __call__(self, mask, rng):\n"
        "        return mask[1:]\n"
    ),
}


GRID = """title = "tiny"
seeds = [0]
rows = ["fedavg", "feda3i"]
set = {set}
[settings]
clean = {{ recipe = "demo", set = ["rounds=2", "noise=none", "feda3i.t1=1"] }}
"""


def make(folder: Path) -> None:
    """Write all good things into a folder: once per session, copied for each input."""
    plain_tree(folder / "set", 5)
    for name, options in (
        ("done", ["method=fedavg"]),
        ("survey", ["method=feda3i", "method.t1=1"]),
    ):
        run(recipe.load(None, [*TINY, *options]), folder / name)
        result_of(folder / name).write(folder / "results" / f"{name}.json")
    with contextlib.suppress(KeyboardInterrupt):
        elr = recipe.load(None, [*TINY, "rounds=3", "method=elr"])
        run(elr, folder / "open", listener=StopAfter())
    (folder / "grids").mkdir()
    (folder / "grids" / "grid.toml").write_text(GRID.format(set=json.dumps(TINY[1:])))
    for name, body in PLUGINS.items():
        (folder / name).write_text(body)


def main(count: int, seed: int = 0, first: int = 0) -> int:
    """Run the inputs; return how many are wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    codes: Counter[str] = Counter()
    wrong = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="odd-session-") as session:
        good, parent = Path(session) / "good", Path(session) / "inputs"
        for folder in (good, parent):
            folder.mkdir()
        make(good)
        for number in range(first, first + count):
            # What even Ctrl-C and an alarm cannot stop ends here, with its place in the code.
            faulthandler.dump_traceback_later(150, exit=True, file=sys.__stderr__)
            verdict = judge(seed, number, good, parent)
            codes[f"{verdict.odd.kind}: exit {verdict.code}"] += 1
            if verdict.wrong:
                wrong += 1
                print(f"\n#{seed}/{number} {verdict.text()}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    for name, number in sorted(codes.items()):
        print(f"{name:24} {number:6}")
    print(f"{count} inputs, {wrong} wrong, {time.monotonic() - started:.0f} s")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
