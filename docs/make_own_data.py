"""Make docs/how-to/own-data.md: three hospitals of different layouts.

Run ``python docs/make_own_data.py`` (two minutes on two cores; the images are synthetic). Commands
and explanations are in own-data.toml; a line that is not explained there stops the script.
A test makes the page again from the transcripts that it shows.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "how-to" / "own-data.md"
TEXTS: dict[str, Any] = tomllib.loads((HERE / "own-data.toml").read_text())
MANY = 4
"""More rounds in a row than this are shown by the first two and the last."""


def build_tree(root: Path) -> None:
    """Write the three hospitals; Mercy draws too large, and at Zoo one mask is missing."""
    import numpy as np
    from PIL import Image
    from scipy import ndimage

    from feda3i.seeding import rng
    from feda3i.synthetic.federations import skin_case

    def save(path: Path, pixels: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)

    for number in range(1, 19):
        image, mask = skin_case(rng(0, "anna", number), 128)
        save(root / "anna" / "images" / f"a{number:02d}.png", image[16:112])
        save(root / "anna" / "masks" / f"a{number:02d}.png", mask[16:112] * 255)
    for number in range(1, 17):
        image, mask = skin_case(rng(0, "mercy", number), 96)
        drawn = ndimage.binary_dilation(mask, iterations=4)
        save(root / "mercy" / f"m{number:02d}.jpg", image)
        save(root / "mercy" / f"m{number:02d}_lesion.png", drawn.astype(np.uint8) * 255)
    for number in range(1, 17):
        image, mask = skin_case(rng(0, "zoo", number), 160)
        case = root / "zoo" / f"case_{number:02d}"
        save(case / "image.png", image)
        if number != 7:
            save(case / "mask.png", mask * 255)


def transcripts(folder: Path) -> list[list[str]]:
    """Play all steps in a folder and return the lines of each."""
    build_tree(folder / "hospitals")
    broken = folder / "hospitals" / "zoo" / "case_03" / "image.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:9000])  # as a full disk leaves it; mended after the first step
    found = []
    for step in TEXTS["step"]:
        done = subprocess.run(
            [sys.executable, "-m", *step["command"].split()],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != step.get("code", 0):
            raise SystemExit(f"{step['command']}: exit code {done.returncode}\n{done.stdout}")
        found.append([line.rstrip() for line in done.stdout.strip("\n").splitlines()])
        broken.write_bytes(whole)
    return found


def page(shown: list[list[str]]) -> str:
    """Return the page for these transcripts; every line must have an explanation."""
    parts, told = [TEXTS["head"]], set[str]()
    for step, all_lines in zip(TEXTS["step"], shown, strict=True):
        lines = shortened(all_lines)
        parts += [f"\n### {step['title']}\n\n", step.get("before", "")]
        parts += [
            f"\n    $ {step['command']}\n",
            *(f"    {line}".rstrip() + "\n" for line in lines),
        ]
        parts.append(f"\n{explanations(step, lines, told)}")
    return "".join([*parts, "\n", TEXTS["tail"]]).replace("\n\n\n", "\n\n").lstrip()


def shortened(lines: list[str]) -> list[str]:
    """Return lines in which a long row of rounds is its first two, dots, and the last."""
    found: list[str] = []
    for is_round, group in groupby(lines, lambda line: bool(re.match(r"round \d+/", line))):
        row = list(group)
        found += [*row[:2], "...", row[-1]] if is_round and len(row) > MANY else row
    return found


def explanations(step: dict[str, Any], lines: list[str], told: set[str]) -> str:
    """Return a table of the lines and what they mean; what was told before is left out."""
    known = [*step["lines"], *TEXTS["common"]]
    rows: dict[str, str] = {}
    for line in filter(None, lines):
        meaning = next((text for pattern, text in known if re.fullmatch(pattern, line)), None)
        if meaning is None:
            raise SystemExit(f"{step['command']}: no explanation for the line {line!r}")
        start = " ".join(line.split()[: 1 if line.startswith(("sha256", "model")) else 3])
        if meaning and meaning not in told:
            rows.setdefault(meaning, f"| `{start.replace('|', chr(92) + '|')}` | {meaning} |\n")
    told.update(rows)
    return "".join(["| line | meaning |\n|---|---|\n", *rows.values()]) if rows else ""


def read_page(text: str) -> list[list[str]]:
    """Return the transcripts that a page shows."""
    shown = []
    for step in TEXTS["step"]:
        block = text.split(f"    $ {step['command']}\n", 1)[1]
        indented = takewhile(lambda line: not line or line.startswith("    "), block.split("\n"))
        shown.append("\n".join(line.removeprefix("    ") for line in indented).rstrip().split("\n"))
    return shown


def main() -> None:
    """Write the page."""
    folder = Path(tempfile.mkdtemp())
    try:
        PAGE.write_text(page(transcripts(folder)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
