"""Fill pages under docs/ from the files under results/: python docs/make_results.py.

The prose is written by hand; the blocks between marks, and the figures, come from the results.
"""

from __future__ import annotations

from pathlib import Path

from feda3i.bench.result import collect
from feda3i.bench.results_page import Page

FILLED = ("results", "offset", "training", "volumes")
PAGES = [Path(__file__).with_name(f"{name}.md") for name in FILLED]
RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).with_name("images") / "results"


def made() -> Page:
    """Return the page's blocks as the results are now."""
    known, unusable = collect([RESULTS])
    for line in unusable:
        print(f"NOTE: {line}")
    return Page(known, f"{IMAGES.parent.name}/{IMAGES.name}")


def pages() -> dict[Path, str]:
    """Return each page with all its blocks made anew."""
    blocks = made()
    return {path: blocks.filled(path.read_text(encoding="utf-8")) for path in PAGES}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    for path in made().draw(IMAGES):
        print(path)
