"""Annotation noise for masks of your own: tensors, batches, dictionaries of a MONAI pipeline.

Run it: python examples/noisy_masks.py
"""

import torch

from feda3i.noise import ContourEvolution, NoisyMaskd, noisy


def main() -> dict[str, float]:
    """Return the mean area of masks as given, and as three annotators draw them."""
    masks = torch.zeros(4, 1, 96, 96)  # (case, channel, height, width), as a loader gives them
    masks[..., 30:70, 24:66] = 1

    small = noisy(masks, ContourEvolution(mu=-4, sigma=2), 0)  # a seed, or a numpy generator
    large = noisy(masks, ContourEvolution(mu=4, sigma=2), 0)
    # A step of MONAI's Compose, or of any pipeline of dictionaries: each case keeps its noisy mask.
    step = NoisyMaskd("label", ContourEvolution(mu=4, sigma=2), case="id")
    piped = torch.stack([step({"label": one, "id": i})["label"] for i, one in enumerate(masks)])

    drawn = {"given": masks, "small": small, "large": large, "in a pipeline": piped}
    return {name: float(one.sum((1, 2, 3)).mean()) for name, one in drawn.items()}


if __name__ == "__main__":
    for name, area in main().items():
        print(f"{name:14} {area:.0f} pixels")
