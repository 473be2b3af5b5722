"""``make odd N=2000``: run so many odd inputs, print counts by exit code and everything wrong.

``python tests/odd/odd.py N [SEED [FIRST]]``; an input is known by its seed and number.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
MEMORY = 8 * 2**30


def main(count: int, seed: int = 0, first: int = 0) -> int:
    """Run the inputs; return how many are wrong."""
    sys.path.append(str(Path(__file__).parents[1]))
    from odd_drive import judge
    from odd_fixtures import make

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
