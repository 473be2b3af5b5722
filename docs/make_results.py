"""Fill docs/results.md from the files under results/: python docs/make_results.py.

The prose is written by hand; the blocks between marks, and the figures, come from the results.
"""

from __future__ import annotations

from pathlib import Path

from feda3i.bench.result import collect
from feda3i.bench.results_page import Page

PAGE = Path(__file__).with_name("results.md")
RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).with_name("images") / "results"


def made() -> Page:
    """Return the page's blocks as the results are now."""
    known, unusable = collect([RESULTS])
    for line in unusable:
        print(f"NOTE: {line}")
    return Page(known, f"{IMAGES.parent.name}/{IMAGES.name}")


def page() -> str:
    """Return the page with all blocks made anew."""
    return made().filled(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for path in made().draw(IMAGES):
        print(path)
