"""Time how offsets are measured from images; one thread, 256 px, grey and colour.

Run: python benchmarks/bench_offset.py

Limits: the profile of one case at most 3 ms on a free core and at most twice the signed distance of
its whole frame; a site of 16 cases with its error at most 3 times as many signed distances.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable

import cv2
import numpy as np

from feda3i.geometry import signed_distance
from feda3i.quality import colour_profile, measure_edges
from feda3i.seeding import rng

SIDE, CASES = 256, 16


def seconds(job: Callable[[], object], repeats: int = 9) -> float:
    """Return the processor time of the best of several runs: the machine is shared."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return min(times)


def site(channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images of ellipses with noise, and masks drawn 6 px outside."""
    yy, xx = np.mgrid[:SIDE, :SIDE]
    images, masks = [], []
    for k in range(CASES):
        draw = rng(0, "bench", k)
        a, b = draw.uniform(30, 65, 2)
        y, x = draw.uniform(110, 146, 2)
        away = (np.hypot((yy - y) / a, (xx - x) / b) - 1) * min(a, b)
        image = 90 + 80 * (away[..., None] > 0) + draw.normal(0, 20, (SIDE, SIDE, channels))
        images.append(np.clip(image, 0, 255).astype(np.uint8))
        masks.append(away < 6)
    return np.stack(images), np.stack(masks)


def main() -> None:
    """Print times and ratios."""
    cv2.setNumThreads(1)
    for name, channels in (("grey", 1), ("colour", 3)):
        images, masks = site(channels)
        pairs = list(zip(images, masks, strict=True))
        base = seconds(lambda m=masks: [signed_distance(mask) for mask in m]) / CASES
        alone = seconds(lambda p=pairs: [colour_profile(*pair) for pair in p]) / CASES
        whole = seconds(lambda i=images, m=masks: measure_edges(i, m)) / CASES
        print(
            f"{name:6}  signed distance {base * 1e3:5.2f} ms   one case {alone * 1e3:5.2f} ms = "
            f"{alone / base:4.2f} x (limit 2)   a site with error, per case {whole * 1e3:5.2f} ms "
            f"= {whole / base:4.2f} x (limit 3)"
        )


if __name__ == "__main__":
    main()
