"""A consortium in one process for tests: recipe, nodes, grid, and a run of it."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.engine.console import Silent
from feda3i.engine.events import read_events
from feda3i.engine.model_file import read_model
from feda3i.engine.run import Result
from feda3i.engine.transport import one_thread
from feda3i.flower.client_app import app
from feda3i.flower.server_app import ServerSettings, serve
from feda3i.recipe import Recipe, validate
from in_process import InProcessGrid
from waiting import HANG


def tiny(
    rounds: int = 3, sites: int = 3, method: str = "fedavg", options: Any = None, **changes: object
) -> Recipe:
    """Return a recipe of a second or two."""
    values = {
        "rounds": rounds,
        "data": {"name": "synthetic-skin", "sites": sites, "cases": 3, "test": 2, "size": 32},
        "noise": {"name": "none"},
        "model": {"name": "unet", "width": 4},
        "method": {"name": method, **(options or {})},
        "train": {"epochs": 1, "batch": 2},
        "evaluate": {"every": 100},
        "engine": {"workers": 1, "device": "cpu", "min_sites": "all", "deadline": HANG},
    }
    for key, change in changes.items():
        values[key] = {**values.get(key, {}), **change} if isinstance(change, dict) else change
    return validate(values)


class Trial:
    """Nodes in one process, with a place for faults."""

    def __init__(
        self, folder: Path, recipe: Recipe, names: list[str], tamper: Callable | None = None
    ) -> None:
        self.folder, self.recipe, self.names = folder, recipe, names
        about = {"state-dir": str(folder / "state"), "allow-synthetic": True}
        nodes = {name: {"site": name, **about} for name in names}
        config = {"recipe": json.dumps(recipe.to_dict()), "run": "trial"}
        self.grid = InProcessGrid(app, nodes, config, tamper)

    def play(self, listener: Any = None, **settings: object) -> Result:
        """Play the whole run over the grid."""
        given = {"sites": tuple(self.names), "patience": 1.0, **settings}
        described = ServerSettings(self.recipe, self.folder / "trial", **given)
        about = {"poll": 0.005, "make": self.grid.message}
        with one_thread():
            return serve(self.grid, described, listener or Silent(), **about)

    def events(self, kind: str) -> list[dict]:
        return list(read_events(self.folder / "trial" / "events.jsonl", kind))


@contextmanager
def flower_task():
    """Let Flower's own strategies make messages here, as they may in a process of Flower only."""
    from flwr.supercore.task_identity import TaskIdentity

    before = dict(vars(TaskIdentity))
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    try:
        yield
    finally:
        for name in ("_task_id", "_run_id", "_node_id"):
            setattr(TaskIdentity, name, before[name])


def site_names(count: int) -> list[str]:
    return [f"site-{k + 1:02d}" for k in range(count)]


def weights_of(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a finished run's model."""
    _, tensors = read_model(path / "model.safetensors")
    return {name: tensor.numpy() for name, tensor in tensors.items()}
