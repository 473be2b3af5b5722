"""Collect rows by noise setting and seed in a file of JSON lines, going on where it stopped."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def parser(text: str) -> argparse.ArgumentParser:
    """Return a parser of what every collection needs to know."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("out", type=Path)
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--settings", nargs="+", default=["skin-ne", "skin-ns"])
    made.add_argument("--set", nargs="*", default=[], help="further overrides of the recipe")
    made.add_argument("--table", action="store_true", help="only print what OUT holds")
    return made


def collect(arguments: argparse.Namespace, make: Callable[[str, int], Rows]) -> Rows:
    """Return the rows that OUT holds and, unless only a table is wanted, make the missing ones."""
    rows: Rows = []
    if arguments.out.exists():
        rows = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    if arguments.table:
        return rows
    done = {(row["setting"], row["seed"]) for row in rows}
    for seed in arguments.seeds:
        for setting in arguments.settings:
            if (setting, seed) not in done:
                new = make(setting, seed)
                with arguments.out.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in new)
                rows += new
    return rows
