"""Good things to make odd ones of: runs, a model, pictures, masks, prepared sets, plug-ins."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
from PIL import Image

from feda3i.testing import _StopAfter

PLUGINS = {
    "empty.py": "",
    "syntax.py": "def broken(:",
    "exits.py": "raise SystemExit(3)",
    "fails.py": "raise KeyError('x')",
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

    pictures(folder / "set")
    tiny = ["data=synthetic-skin", "data.sites=2", "data.cases=2", "data.test=2", "data.size=32"]
    tiny += ["model.width=4", "train.epochs=1", "engine.workers=1"]
    for name, method in (("done", "method=fedavg"), ("survey", "method=feda3i")):
        options = ["method.t1=1"] if name == "survey" else []
        run(recipe.load(None, [*tiny, "rounds=2", method, *options]), folder / name)
        result_of(folder / name).write(folder / "results" / f"{name}.json")
    with contextlib.suppress(KeyboardInterrupt):
        elr = recipe.load(None, [*tiny, "rounds=3", "method=elr"])
        run(elr, folder / "open", listener=_StopAfter(1))
    (folder / "grids").mkdir()
    (folder / "grids" / "grid.toml").write_text(GRID.format(set=json.dumps(tiny)))
    for name, body in PLUGINS.items():
        (folder / name).write_text(body)


def pictures(folder: Path) -> None:
    """Write a few colour images with masks."""
    draw = np.random.default_rng(0)
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(5):
        pixels = draw.integers(0, 255, (40, 48, 3), dtype=np.uint8)
        mask = np.zeros((40, 48), np.uint8)
        mask[8 + number : 30, 10:35] = 255
        Image.fromarray(pixels).save(folder / "images" / f"case{number}.png")
        Image.fromarray(mask).save(folder / "masks" / f"case{number}.png")
