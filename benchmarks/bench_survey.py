"""Time the survey's arithmetic, the grouping and the weights; one thread, 256 px.

Run: python benchmarks/bench_survey.py

Limits (issue 4): regions and losses at most 1.2 x two exact distance transforms of OpenCV, cached
regions at most 0.3 ms per case, grouping and weights of 1,000 sites under 2 s, and the survey at
most 10 % of a round.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable

import cv2
import numpy as np
import torch
from torch.nn import functional as F

from feda3i.models.unet import UNet
from feda3i.quality import find_regions, group_sites, site_weights, survey_site

SIDE = 256
ROUND_EPOCHS = 5  # the paper's local epochs per round


def seconds(job: Callable[[], object], repeats: int = 7) -> float:
    """Return the best of several runs: the machine is shared."""
    job()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def cases(kind: str, number: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Return logits (case, 1, side, side) and ellipses (case, side, side) of a typical size."""
    random = np.random.default_rng(0)
    yy, xx = np.mgrid[:SIDE, :SIDE]
    low, high = {"small": (8, 20), "usual": (30, 65), "large": (90, 120)}[kind]
    masks = []
    for _ in range(number):
        a, b = random.uniform(low, high, 2)
        y, x = random.uniform(110, 146, 2)
        masks.append(((yy - y) / a) ** 2 + ((xx - x) / b) ** 2 <= 1)
    logits = random.normal(0, 3, (number, 1, SIDE, SIDE)).astype(np.float32)
    return logits, np.array(masks, dtype=np.uint8)


def two_transforms(masks: np.ndarray) -> None:
    for mask in masks:
        cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        cv2.distanceTransform(1 - mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)


def survey_arithmetic() -> None:
    print("survey arithmetic per case   first time / two transforms   cached regions   kept")
    for kind in ("small", "usual", "large"):
        logits, masks = cases(kind)
        base = seconds(lambda m=masks: two_transforms(m)) / len(masks)
        first = seconds(lambda z=logits, m=masks: survey_site([(z, m)])) / len(masks)
        cache: dict = {}
        survey_site([(logits, masks)], cache=cache)
        again = seconds(lambda z=logits, m=masks, c=cache: survey_site([(z, m)], cache=c))
        kept = np.mean([find_regions(mask != 0).bits.nbytes for mask in masks]) / 1024
        print(
            f"  {kind:6} objects      {first * 1e3:6.2f} / {base * 1e3:5.2f} ms = "
            f"{first / base:4.2f} x (limit 1.2)   {again / len(masks) * 1e3:5.3f} ms (limit 0.3)"
            f"   {kept:4.1f} KiB"
        )


def share_of_a_round() -> None:
    """Compare a survey with one local round of the same site: five epochs of training."""
    torch.set_num_threads(1)
    net = UNet(channels=3).to(memory_format=torch.channels_last)
    _, masks = cases("usual", 8)
    images = (torch.rand(8, 3, SIDE, SIDE) * 255).to(memory_format=torch.channels_last)
    target = torch.from_numpy(masks[:, None]).float()
    optimiser = torch.optim.Adam(net.parameters(), 5e-3, betas=(0.9, 0.99))

    def train_step() -> None:
        net.train()
        optimiser.zero_grad()
        F.binary_cross_entropy_with_logits(net(images), target).backward()
        optimiser.step()

    def survey() -> None:
        net.eval()
        with torch.no_grad():
            survey_site([(net(images), masks)])

    step, once = seconds(train_step, 3), seconds(survey, 3)
    print(
        f"survey / round of {ROUND_EPOCHS} epochs  {once:.2f} / {ROUND_EPOCHS * step:.2f} s "
        f"per batch of 8 = {once / (ROUND_EPOCHS * step):.1%} (limit 10 %)"
    )


def grouping() -> None:
    random = np.random.default_rng(1)
    mu = random.uniform(-20, 20, 1000)
    q = np.column_stack([0.3 + 0.03 * np.maximum(mu, 0), 0.3 + 0.05 * np.maximum(-mu, 0)])
    q = np.abs(q + random.normal(0, 0.03, q.shape))
    group_sites(q)  # the first call imports scikit-learn
    paper = seconds(lambda: site_weights(q, group_sites(q)), 3)
    print(f"1,000 sites: grouping and weights {paper:.2f} s (limit 2)")


if __name__ == "__main__":
    cv2.setNumThreads(1)
    survey_arithmetic()
    grouping()
    share_of_a_round()
