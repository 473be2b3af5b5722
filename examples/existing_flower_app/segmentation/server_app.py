"""The server: Flower's loop with FedA3I or Redraw in the place of FedAvg."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from feda3i.flower import FedA3I, Redraw
from segmentation.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds; what is printed: weights per client and stage, or moves per client."""
    config = context.run_config
    strategy: FedAvg = FedAvg()
    if config["strategy"] == "feda3i":
        strategy = FedA3I(t1=int(config["t1"]), stages=["first", "middle", "last"])
    elif config["strategy"] == "redraw":
        strategy = Redraw()
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(config["num-server-rounds"]),
    )
    context.state["final"] = result.arrays
    if isinstance(strategy, FedA3I):
        for node, weights in strategy.weights.items():
            print(node, [round(weight, 3) for weight in weights])
    elif isinstance(strategy, Redraw):
        print({node: [round(move, 1) for move in moves] for node, moves in strategy.moves.items()})
