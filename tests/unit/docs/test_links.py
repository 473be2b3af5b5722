"""Every relative link of the pages, and every file of the repository that they name, exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])
NAMED = re.compile(r"\b(?:docs|src|tests|examples|benchmarks)/[\w./-]*\w\.(?:py|md|toml|sh|json)\b")
MADE_LATER = {"docs/README.md"}  # within an exported bundle


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


def broken(page: Path) -> list[str]:
    """Return what a page links to or names and is not there."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        is_there = target.exists() or (path.startswith(".") and target.with_suffix("").exists())
        if not is_there or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found + [
        name
        for name in NAMED.findall(page.read_text(encoding="utf-8"))
        if name not in MADE_LATER and not (ROOT / name).exists() and "NAME" not in name
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_named_files_exist(page):
    if page.name == "CHANGELOG.md":
        pytest.skip("the changelog names what is gone")
    assert broken(page) == []


def test_pages_named_by_the_code_exist():
    named = {
        (file.relative_to(ROOT).as_posix(), name)
        for folder in ("src", "tests", "examples", "benchmarks", "docs")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w./-]*\w\.md\b", file.read_text(encoding="utf-8"))
    }
    missing = {both for both in named if not (ROOT / both[1]).exists()}
    assert {name for _, name in missing} <= MADE_LATER, missing


def test_a_broken_link_is_named(tmp_path):
    page = tmp_path / "page.md"
    gone = "docs/" + "nothing.md"
    page.write_text(f"# One\n[a](#one) [b](#two) [c](other.md) `{gone}`\n[d](page.md#one)\n")
    assert broken(page) == ["#two", "other.md", gone]


def test_every_page_is_in_the_table_of_contents():
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    made = ("reference/methods/", "tables/")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name in contents or name.startswith(made), name
