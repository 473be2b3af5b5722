"""Make docs/images/report.png: the top of a report in a real browser (Chromium must be there).

python docs/make_report.py RUN...  after e.g.
for s in 0 1 2; do for m in fedavg feda3i; do feda3i run demo method=$m seed=$s; done; done
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, SHOWN = 1200, 2110, 760


def make(runs: list[Path], target: Path) -> None:
    """Write the picture."""
    from feda3i.report.build import write_report
    from feda3i.report.runs import read_run

    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder, "report.html"), Path(folder, "shot.png")
        write_report([read_run(path) for path in runs], page)
        browser = next(path for path in map(shutil.which, BROWSERS) if path)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}"]
        subprocess.run([browser, *flags, page.as_uri()], check=True)
        picture = Image.open(shot).crop((0, 0, WIDTH, HEIGHT)).convert("RGB")
    height = round(HEIGHT * SHOWN / WIDTH)
    small = picture.resize((SHOWN, height), Image.Resampling.LANCZOS)
    # The default palette takes greys for the few strong colours.
    strong = small.quantize(128, method=Image.Quantize.MAXCOVERAGE)
    strong.save(target, optimize=True)


if __name__ == "__main__":
    make([Path(run) for run in sys.argv[1:]], ROOT / "docs" / "images" / "report.png")
