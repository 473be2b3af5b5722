"""What concerns this machine only: where a run finds its data (``local.json``).

The recipe, the event log, the manifest and the model travel; the place of the data does not.
"""

import json
import os
from pathlib import Path
from typing import Any

from feda3i.files import write_file
from feda3i.recipe.sections import PLACES, Recipe

FILE = "local.json"
NOTE = "Where the data lay on the machine of this run. Leave this file out of what you pass on."


def write_local(folder: Path, recipe: Recipe) -> None:
    """Write the places that a recipe names, for the user alone."""
    places = {
        key: os.path.abspath(os.path.expanduser(value))
        for key, value in recipe.data.options().items()
        if key in PLACES and isinstance(value, str)
    }
    content = json.dumps({"note": NOTE, "data": places}, indent=2)
    write_file(folder / FILE, content.encode(), mode=0o600)


def with_local(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the values of a recorded recipe with the places that its folder knows.

    Whether they still hold the data of the run is for their hash to say.
    """
    try:
        known = json.loads((folder / FILE).read_text("utf-8"))["data"]
        places = {key: known[key] for key in PLACES if isinstance(known.get(key), str)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return values
    data = values.get("data")
    return {**values, "data": {**places, **data}} if isinstance(data, dict) else values
