"""What concerns this machine only: where a run finds its data (``local.json``).

The recipe, the event log, the manifest and the model travel; the place of the data does not. It is
written as the user gave it, beside the working directory that it was relative to.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from feda3i.files import write_file
from feda3i.recipe.sections import PLACES, Recipe

FILE = "local.json"
NOTE = (
    "Where the data lay on the machine of this run, for resume, evaluate and repeats there. "
    "Leave this file out when you pass the folder on."
)


def write_local(folder: Path, recipe: Recipe) -> None:
    """Write the working directory and the places that a recipe names, for the user alone."""
    places = {key: value for key, value in recipe.data.options().items() if key in PLACES}
    content = {"note": NOTE, "cwd": os.getcwd(), "data": places}
    text = json.dumps(content, indent=2, sort_keys=True)
    write_file(folder / FILE, text.encode(), mode=0o600)


def with_local(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the values of a recorded recipe with the places that its folder knows.

    A relative place is looked for in the working directory of the run, then in this one; whether it
    holds the data of the run is for their hash to say.
    """
    local = _read(folder / FILE)
    data, known = values.get("data"), local.get("data")
    if not isinstance(data, dict) or not isinstance(known, dict):
        return values
    cwd = Path(str(local.get("cwd", "")))
    places = {key: _found(known[key], cwd) for key in PLACES if key in known and key not in data}
    return {**values, "data": {**data, **places}}


def working_directory(folder: Path) -> Path | None:
    """Return where the run was started, if its folder says so."""
    cwd = _read(folder / FILE).get("cwd")
    return Path(cwd) if isinstance(cwd, str) else None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _found(value: Any, cwd: Path) -> Any:
    if not isinstance(value, str):
        return value
    try:
        there = cwd / Path(value).expanduser()
        return str(there) if there.exists() else value
    except (OSError, RuntimeError, ValueError):  # no such user, or no name of a file
        return value
