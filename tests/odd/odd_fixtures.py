"""Good things to make odd ones of: runs, a model, pictures, masks, prepared sets, plug-ins."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from data_files import plain_tree
from listeners import StopAfter
from short import TINY

PLUGINS = {
    "syntax.py": "def broken(:",
    "exits.py": "raise SystemExit(3)",
    "thing.py": "Thing = 5\ndef fails(**options):\n    raise LookupError('no')\n",
    "method.py": (
        '"""Own: fails in training; nothing leaves the site."""\n'
        "from feda3i.methods.base import Method\n"
        "class Thing(Method):\n"
        "    def fit(self, site):\n"
        "        return {}['x']\n"
    ),
    "network.py": (
        "from torch import nn\n"
        "class Thing(nn.Module):\n"
        "    def __init__(self, channels=3, classes=1):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Conv2d(channels, classes, 1)\n"
        "    def forward(self, images):\n"
        "        return self.layer(images).nothing\n"
    ),
    "noise.py": (
        "class Thing:\n"
        "    def __init__(self, mu=0, sigma=0):\n"
        "        pass\n"
        "    def __call__(self, mask, rng):\n"
        "        return mask[1:]\n"
    ),
}


GRID = """title = "tiny"
seeds = [0]
rows = ["fedavg", "feda3i"]
set = {set}
[settings]
clean = {{ recipe = "demo", set = ["rounds=2", "noise=none", "feda3i.t1=1"] }}
"""


def make(folder: Path) -> None:
    """Write all good things into a folder: once per session, copied for each input."""
    from feda3i import recipe
    from feda3i.bench.result import result_of
    from feda3i.engine.run import run

    plain_tree(folder / "set", 5)
    for name, options in (
        ("done", ["method=fedavg"]),
        ("survey", ["method=feda3i", "method.t1=1"]),
    ):
        run(recipe.load(None, [*TINY, *options]), folder / name)
        result_of(folder / name).write(folder / "results" / f"{name}.json")
    with contextlib.suppress(KeyboardInterrupt):
        elr = recipe.load(None, [*TINY, "rounds=3", "method=elr"])
        run(elr, folder / "open", listener=StopAfter())
    (folder / "grids").mkdir()
    (folder / "grids" / "grid.toml").write_text(GRID.format(set=json.dumps(TINY[1:])))
    for name, body in PLUGINS.items():
        (folder / name).write_text(body)
