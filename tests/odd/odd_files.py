"""Odd files: good run folders, models, sets and pictures with one thing wrong."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from random import Random
from typing import Any

from odd_values import mutated, mutated_tree, text

from feda3i.errors import FedA3IError


def spoil(folder: Path, draw: Random) -> str:
    """Do one wrong thing to one file below the folder; return what."""
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
    match instead := draw.choice(("nothing", "a folder", "a pipe", "a link", "a loop")):
        case "a folder":
            file.mkdir()
        case "a pipe":
            os.mkfifo(file)
        case "a link":
            file.symlink_to("/no/where")
        case "a loop":
            file.symlink_to(file.name)
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
