"""Run FedA3I in NVFlare's simulator: pip install nvflare, then python job.py."""

import sys

from feda3i_aggregator import FedA3IAggregator
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from segmentation.task import Net


def main(folder: str) -> None:
    """Simulate eight clients that draw too large or too small."""
    recipe = FedAvgRecipe(
        name="feda3i",
        model=Net(),
        min_clients=8,
        num_rounds=4,
        train_script="client.py",
        train_args="--t1 2",
        aggregator=FedA3IAggregator(stages=["first", "middle", "last"]),
    )
    run = recipe.execute(SimEnv(num_clients=8, num_threads=2, workspace_root=folder))
    print(run.get_status(), run.get_result())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/tmp/nvflare")
