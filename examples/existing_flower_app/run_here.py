"""Play the app in one process, without servers or nodes: ``python run_here.py``.

Prints the Dice on cleanly drawn masks with FedAvg and with FedA3I in its place.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import torch
from flwr.app import Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from segmentation.client_app import app as client
from segmentation.server_app import app as server
from segmentation.task import OFFSETS, SIZE, Net, dice

from feda3i.flower.inprocess import InProcessGrid

HERE = Path(__file__).parent


def clean_cases(count: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return test cases whose masks are exact."""
    draw = torch.Generator().manual_seed(99)
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    centre = 12 + 8 * torch.rand(count, 2, 1, 1, generator=draw)
    radius = 6 + 3 * torch.rand(count, 1, 1, generator=draw)
    masks = torch.hypot(y - centre[:, 0], x - centre[:, 1]) < radius
    images = masks + 0.3 * torch.randn(masks.shape, generator=draw)
    return images[:, None].float(), masks[:, None].float()


def play(strategy: str, seed: int = 0) -> float:
    """Run the app with a strategy and return the Dice of its model on clean masks."""
    config = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config = {**config, "strategy": strategy}
    nodes = {f"client-{k}": {"partition-id": k} for k in range(len(OFFSETS))}
    grid = InProcessGrid(client, nodes, config)
    context = Context(1, 1, {}, RecordDict(), config)
    torch.manual_seed(seed)
    # Flower lets strategies make messages in its own processes only, which this is not.
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    server(grid, context)
    model = Net()
    model.load_state_dict(context.state["final"].to_torch_state_dict())
    return dice(model, *clean_cases())


if __name__ == "__main__":
    scores = {name: play(name) for name in ("fedavg", "feda3i")}
    print("   ".join(f"{name} {score:.4f}" for name, score in scores.items()))
