"""Odd values, as a user may type them and as JSON may hold them, and good files spoilt by them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from feda3i.errors import FedA3IError

WORDS = (
    *("", " ", "abc", "None", "null", "auto", "none", "all", "ä漢字", "\u202ex", "a\nb", "x" * 300),
    *("'", '"', "'x'", '"5"', r'"\u0000"', "=", "a=b", ".", "..", "...", "-", "--", "%", "{x}"),
    *("[/x]", "[bold", ":smile:"),
    *("/no/where", "/dev/null", "/proc/nowhere/x", "nowhere.toml", "nowhere.py:X", "a:b"),
    *(":", "x:", ":x", "math:sqrt", "json:loads", "math:pi", ".:x", "a..b:c", "monai:Nope"),
    *("monai:", "unet:x"),
)
NUMBERS = (
    *("0", "-1", "1", "2", "3", "-0.0", "0.5", "1.5", "-2.5", "255", "256", "1_0", "+1", "0x10"),
    *("nan", "-nan", "inf", "-inf", "1e-300", "1e300", "1e999", "-1e999"),
    *("99999999999999999999", "-9223372036854775809", "0x" + "f" * 5000, "9" * 5000),
)
PLAIN = (
    *("0", "1", "2", "3", "5", "12", "0.1", "0.5", "0.9", "1.0", "-0.5", "1e-6", "true", "false"),
    *("[0.5, 1.0]", "[1]", "auto", "ce", "dc", "none", "iid", "exact", "robust", "paper"),
)
"""Values that are right for some key, so that a run comes to use them."""
WHOLE = ("0", "1", "2", "3", "7", "12", "-1")
FRACTIONS = ("0", "0.01", "0.3", "0.5", "0.99", "1", "3.0", "30", "-2", "1e-9", "1e6")
LARGE = ("1000", "4097", "100000", "1000000", "2147483648", "9223372036854775807", "1e12")
"""Numbers that may be valid and then mean much work or much memory."""
THINGS = (
    *("true", "false", "[]", "[1]", "[0.5, 0.5]", "[true]", "[[1], [2]]", "['a', 1]", "[nan]"),
    *("{}", "{a = 1}", "{name = 1}", "{name = 'x', y = [1]}", "1979-05-27", "07:32:00"),
    *("1979-05-27T07:32:00Z", "[" * 2000 + "]" * 2000, "{a = " * 1500 + "1" + "}" * 1500, "[1,"),
)
JSON: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 10**6, 2**63, -(10**25), 0.5, -1.5, 1e300, float("nan")),
    *(float("inf"), "", "abc", "x" * 300, "\u0000", "\ud800", "os:getcwd", "../..", "/dev/null"),
    *([], [1], [[1]], [None], ["a"], {}, {"name": 1}, {"a": {"b": []}}, {"name": "x", "y": True}),
)


def text(draw: Random) -> str:
    """Return one odd value as text."""
    pools = (WORDS, NUMBERS, THINGS, LARGE, PLAIN, PLAIN, PLAIN, PLAIN)
    return draw.choice(draw.choice(pools))


def is_large(value: str) -> bool:
    """Tell whether a value may rightly mean long work."""
    try:
        return abs(float(value)) >= 200
    except (ValueError, OverflowError):
        return False


def toml_value(value: str, draw: Random) -> str:
    """Return odd text as the right side of a line of TOML: bare, or as a string."""
    if value in WORDS and draw.random() < 0.8:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return value


def mutated(data: bytes, draw: Random) -> bytes:
    """Return bytes with one thing wrong: cut, flipped, inserted, doubled or replaced."""
    place = draw.randrange(len(data) + 1)
    other = bytes(draw.randrange(256) for _ in range(draw.choice((1, 1, 4, 40))))
    before, after = data[:place], data[place:]
    inserted = (before + other + after, before + b"\xff\xfe" + after)
    replaced = (before + other + after[len(other) :], before + b"\x00" * 8 + after[8:])
    return draw.choice((before, b"", data + data, *inserted, *replaced))


def mutated_tree(tree: Any, draw: Random) -> Any:
    """Return JSON values with one of them replaced by an odd one, left out, or joined by one."""
    if isinstance(tree, dict) and tree and draw.random() < 0.85:
        key = draw.choice(sorted(tree))
        if draw.random() < 0.15:
            return {k: v for k, v in tree.items() if k != key}
        if draw.random() < 0.1:
            return {**tree, draw.choice(("", "odd", "a.b", "\u0000")): draw.choice(JSON)}
        return {**tree, key: mutated_tree(tree[key], draw)}
    if isinstance(tree, list) and tree and draw.random() < 0.7:
        place = draw.randrange(len(tree))
        return [*tree[:place], mutated_tree(tree[place], draw), *tree[place + 1 :]]
    return draw.choice(JSON)


def spoil(folder: Path, draw: Random) -> str:
    """Do one or two wrong things below the folder; return which."""
    return "; ".join(_spoil(folder, draw) for _ in range(draw.choice((1, 1, 2))))


def _spoil(folder: Path, draw: Random) -> str:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.stat().st_size)
    if not files:
        return "nothing left"
    file = draw.choice(files)
    name = file.relative_to(folder)
    if file.suffix in _SPECIAL and draw.random() < 0.75:
        try:
            _SPECIAL[file.suffix](file, draw)
            return f"values of {name}"
        except (ValueError, LookupError, TypeError, AttributeError, FedA3IError):
            pass  # this file is spoiled already and holds no values any more
    if draw.random() < 0.4:
        file.write_bytes(mutated(file.read_bytes(), draw))
        return f"bytes of {name}"
    file.unlink()
    puts: dict[str, Callable[[], None]] = {
        "nothing": lambda: None,
        "a folder": file.mkdir,
        "a pipe": lambda: os.mkfifo(file),
        "a link": lambda: file.symlink_to("/no/where"),
        "a loop": lambda: file.symlink_to(file.name),
    }
    instead = draw.choice(tuple(puts))
    puts[instead]()
    return f"{instead} in the place of {name}"


def _json(file: Path, draw: Random) -> None:
    file.write_text(json.dumps(mutated_tree(json.loads(file.read_text("utf-8")), draw)))


def _lines(file: Path, draw: Random) -> None:
    lines = file.read_text("utf-8").splitlines()
    place = draw.randrange(len(lines))
    lines[place] = json.dumps(mutated_tree(json.loads(lines[place]), draw))
    file.write_text("\n".join(lines) + "\n")
    if draw.random() < 0.7:  # as whoever edits a run's log and knows of its hash
        manifest = json.loads((file.parent / "manifest.json").read_text("utf-8"))
        manifest["events_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        (file.parent / "manifest.json").write_text(json.dumps(manifest))


def _table(file: Path, draw: Random) -> None:
    rows = [line.split(",") for line in file.read_text("utf-8").splitlines()]
    row = draw.choice(rows)
    row[draw.randrange(len(row))] = text(draw)
    file.write_text("\n".join(",".join(cells) for cells in rows) + "\n")


def _recipe(file: Path, draw: Random) -> None:
    lines = file.read_text("utf-8").splitlines()
    place = draw.choice([k for k, line in enumerate(lines) if "=" in line])
    lines[place] = f"{lines[place].split('=')[0]}= {text(draw)}"
    file.write_text("\n".join(lines) + "\n")


def _model(file: Path, draw: Random) -> None:
    """Change the metadata of a safetensors file, or the header that says where tensors lie."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    if draw.random() < 0.8:
        about = json.loads(header["__metadata__"]["feda3i"])
        header["__metadata__"]["feda3i"] = json.dumps(mutated_tree(about, draw))
    else:
        header = mutated_tree(header, draw)
    head = json.dumps(header).encode()
    file.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])


_SPECIAL = {
    ".json": _json,
    ".jsonl": _lines,
    ".csv": _table,
    ".toml": _recipe,
    ".safetensors": _model,
}
