"""Scoring a case (Dice, IoU, HD95, ASSD) against medpy and MONAI, one thread, same masks."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from feda3i.metrics import score_case
from feda3i.synthetic.fields import blob

Pair = tuple[np.ndarray, np.ndarray]


def pairs_2d(size: int, count: int) -> list[Pair]:
    """Return lesions and what a fair model finds of them."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(count):
        options = {"radius": float(rng.uniform(0.1, 0.25)), "aspect": 1.3, "tilt": 0.4, "lobes": 1}
        centre = rng.uniform(0.4, 0.6, 2)
        truth = blob(rng, size, centre=tuple(centre), rough=0.6, **options)[0] > 0
        moved = tuple(centre + rng.normal(0, 0.02, 2))
        made.append((blob(rng, size, centre=moved, rough=0.8, **options)[0] > 0, truth))
    return made


def pairs_3d(size: int, count: int) -> list[Pair]:
    """Return ellipsoids of a quarter of the frame's side."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, size)] * 3, indexing="ij"))

    def ball() -> np.ndarray:
        centre, axes = rng.normal(0.5, 0.02, 3), rng.uniform(0.2, 0.3, 3)
        away = (grid - centre[:, None, None, None]) / axes[:, None, None, None]
        return (away**2).sum(axis=0) < 1

    return [(ball(), ball()) for _ in range(count)]


def medpy_scores(prediction: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    from medpy.metric import binary

    names = {"dice": "dc", "iou": "jc", "hd95": "hd95", "assd": "assd"}
    return {ours: getattr(binary, theirs)(prediction, truth) for ours, theirs in names.items()}


def monai_scores(prediction: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    from monai import metrics as monai

    p, t = (torch.from_numpy(mask)[None, None] for mask in (prediction, truth))
    return {
        "dice": monai.compute_dice(p, t).item(),
        "iou": monai.compute_iou(p, t).item(),
        "hd95": monai.compute_hausdorff_distance(p, t, True, percentile=95).item(),
        "assd": monai.compute_average_surface_distance(p, t, True, symmetric=True).item(),
    }


def seconds(score: Callable[..., object], pairs: list[Pair], repeats: int = 3) -> float:
    """Return the time per case, the best of some passes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for prediction, truth in pairs:
            score(prediction, truth)
        times.append(time.perf_counter() - start)
    return min(times) / len(pairs)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"{'masks':>14} {'ours':>10} {'medpy':>16} {'MONAI':>16}   largest |HD95 - ours|")
    for name, pairs in (
        ("64 x 64", pairs_2d(64, 40)),
        ("256 x 256", pairs_2d(256, 40)),
        ("512 x 512", pairs_2d(512, 20)),
        ("96 x 96 x 96", pairs_3d(96, 3)),
    ):
        ours = [score_case(*pair) for pair in pairs]
        own = seconds(score_case, pairs)
        line = f"{name:>14} {own * 1e3:7.2f} ms"
        apart = []
        for other in (medpy_scores, monai_scores):
            theirs = [other(*pair) for pair in pairs]
            for a, b in zip(ours, theirs, strict=True):
                for score in ("dice", "iou", "assd"):
                    assert abs(a[score] - b[score]) < 1e-4, (name, other.__name__, score)
            apart.append(max(abs(a["hd95"] - b["hd95"]) for a, b in zip(ours, theirs, strict=True)))
            spent = seconds(other, pairs, repeats=2)
            line += f" {spent * 1e3:7.1f} ms {spent / own:4.1f}x"
        print(f"{line}   medpy {apart[0]:.1e}, MONAI {apart[1]:.2f} px")


if __name__ == "__main__":
    main()
