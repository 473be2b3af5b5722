"""The app that travels to the sites: settings only, no code.

Flower sends an app to every node before a run. Ours holds a single ``pyproject.toml``: it names the
two components, which are part of the installed package, and carries the recipe as JSON text. Sites
thus run code that they have installed and reviewed; ``feda3i.flower.guard`` refuses anything else.
"""

from __future__ import annotations

import json
from pathlib import Path

from feda3i import __version__
from feda3i.basics.files import write_file
from feda3i.flower.guard import CLIENT, SERVER
from feda3i.recipe import Recipe


def write_app(folder: Path, recipe: Recipe, run: str, *, is_resumed: bool = False) -> Path:
    """Write the app of a run, whose recipe names no path; ``flwr run FOLDER`` starts it."""
    import tomli_w

    project = {
        "name": "feda3i-run",
        "version": __version__,
        "description": "Settings of a feda3i run; the code is installed at server and sites",
        "license": "Apache-2.0",
    }
    text = json.dumps(recipe.to_dict(), sort_keys=True)
    app = {
        "publisher": "feda3i",
        "components": {"serverapp": SERVER, "clientapp": CLIENT},
        "config": {"recipe": text, "run": run, "resume": is_resumed},
    }
    folder.mkdir(parents=True, exist_ok=True)
    settings = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    write_file(folder / "pyproject.toml", settings.encode())
    return folder
