"""FedA3I's weights in a loop of your own: survey each site's masks, average the state dicts.

Run it: python examples/pieces_pytorch.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import feda3i


def disc(radius: float) -> torch.Tensor:
    """Return masks ``(case, 1, 64, 64)`` of discs; an annotator's habit is the radius."""
    y, x = torch.meshgrid(torch.arange(64.0) - 31, torch.arange(64.0) - 31, indexing="ij")
    return (x**2 + y**2 < radius**2).float().expand(4, 1, 64, 64)


def main() -> dict[str, list[float]]:
    """Return the weight of each site at each stage."""
    torch.manual_seed(0)
    images = 2 * disc(20) - 1 + 0.3 * torch.randn(4, 1, 64, 64)
    radii = {"a": 23, "b": 22, "c": 18, "d": 17}
    loaders = {site: DataLoader(TensorDataset(images, disc(r)), 2) for site, r in radii.items()}
    global_model = nn.Sequential(nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.Conv2d(4, 1, 3, 1, 1))
    optimiser = torch.optim.Adam(global_model.parameters(), 0.02)
    for _ in range(40):  # stands in for the warm-up by FedAvg
        loss = nn.functional.binary_cross_entropy_with_logits(global_model(images), disc(20))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    # The five lines: at each site, then at the server.
    surveys = {site: feda3i.survey(global_model, loader) for site, loader in loaders.items()}
    stages = feda3i.stages_of(global_model, images)
    weights = feda3i.weights_of(surveys, dict.fromkeys(radii, 4), len(stages))
    states = [global_model.state_dict() for _ in radii]  # what the sites trained
    global_model.load_state_dict(feda3i.average(states, weights, stages))

    return dict(zip(radii, weights.round(3).tolist(), strict=True))


if __name__ == "__main__":
    for site, row in main().items():
        print(site, row)
