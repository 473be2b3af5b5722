"""A consortium on one machine: a server and some sites as real processes with TLS and keys.

The same recipe is then run on the local engine; both models must have the same SHA-256.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

from feda3i.deploy.control import Control, round_line
from feda3i.deploy.processes import Consortium
from feda3i.errors import RecipeError, RunError
from feda3i.recipe import Recipe, validate


def recipe_of(sites: int, method: str, rounds: int = 4) -> Recipe:
    """Return a short recipe: every message costs seconds of polling and starting processes."""
    options: dict[str, Any] = {"t1": 2} if method == "feda3i" else {}
    return validate(
        {
            "title": f"{method} over the network",
            "rounds": rounds,
            "data": {"name": "synthetic-skin", "sites": sites, "cases": 8, "test": 16, "size": 48},
            "noise": {"name": "contour", "setting": "skin-ne"},
            "model": {"name": "unet", "width": 8},
            "method": {"name": method, **options},
            "train": {"epochs": 1, "batch": 4},
            "evaluate": {"every": 2},
            "engine": {"workers": 1, "device": "cpu", "min_sites": "all", "deadline": 300},
        }
    )


def play_trial(out: Path, sites: int = 4, method: str = "feda3i") -> None:
    """Run a recipe over the network and locally, in a folder to make, and compare."""
    from feda3i.engine.run import run

    if out.exists():
        raise RecipeError(f"'{out}' exists; remove it or choose another folder with --out")
    recipe = recipe_of(sites, method)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes are stopped
    begin = time.monotonic()
    names = [f"site-{k + 1:02d}" for k in range(sites)]
    with Consortium(out, names) as consortium:
        _say(begin, f"certificates and keys for {sites} sites: {out}")
        consortium.start_server()
        _say(begin, f"server at {consortium.settings.address}, TLS, {sites} keys registered")
        for name in names:
            consortium.start_site(name)
        number = consortium.start_run(recipe, "demo")
        _say(begin, f"{sites} nodes started, run {number}")
        with Control(consortium.server) as control:
            for event in control.follow(number, consortium.runs / "demo", pause=0.5):
                _say(begin, round_line(event))
            status = control.status(number)
        network = (consortium.runs / "demo" / "DONE").read_text().strip()
    local = run(recipe, out / "local")
    _say(begin, "the same recipe on the local engine")
    megabytes = (status.bytes_sent / 1e6, status.bytes_received / 1e6)
    print(f"to sites {megabytes[0]:.1f} MB, from sites {megabytes[1]:.1f} MB")
    print(f"network  {network}\nlocal    {local.sha256}")
    if network != local.sha256:
        raise RunError("the two engines made different models")
    print("the two models are the same, bit for bit")


def _say(begin: float, text: str) -> None:
    print(f"{time.monotonic() - begin:6.1f} s  {text}", flush=True)
