"""Patches and sliding windows beside MONAI's: the same batches, the same windows.

Run: python benchmarks/bench_patches.py [--short]

MONAI comes with the extra ``dev``. Its side is ``DataLoader`` over ``CacheDataset``: all that does
not draw (channel first, normalisation) is cached, then ``RandCropByPosNegLabeld``. One process on
both sides, as a site has; ``num_workers`` would take cores from other sites.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from feda3i import recipe
from feda3i.core.messages import Order
from feda3i.core.patches import slide
from feda3i.engine.host import SiteHost
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread
from feda3i.simulation.federation import federation_of

PATCH = (32, 48, 32)


def seconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median CPU time of each call; turn by turn, so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.process_time()
            work()
            times[name].append(time.process_time() - began)
    return {name: statistics.median(all_) for name, all_ in times.items()}


def bench_batches(size: int, batch: int, repeats: int) -> None:
    """Print how long an epoch of patches takes to make, without any training."""
    from monai.data import CacheDataset, DataLoader
    from monai.transforms import (
        Compose,
        EnsureChannelFirstd,
        NormalizeIntensityd,
        RandCropByPosNegLabeld,
        SpatialPadd,
    )

    made = recipe.load(
        None,
        [
            *("data=synthetic-volumes", "data.sites=1", "data.cases=24", "data.test=1"),
            *(f"data.size={size}", "data.normalise=zscore", f"train.batch={batch}"),
            *(f"train.patch={list(PATCH)}", "model.width=4", "model.norm=instance"),
        ],
    )
    federation = federation_of(made)
    job = job_of(made, federation)
    station = SiteHost(job, federation.train, federation.sites, Path("unused"))
    site = station._site(Order("fit", 1, federation.names()[0], job.initial), {})
    keys = ("image", "label")
    steps = Compose(
        [
            EnsureChannelFirstd("image", channel_dim=-1),
            EnsureChannelFirstd("label", channel_dim="no_channel"),
            NormalizeIntensityd("image"),
            SpatialPadd(keys, PATCH),
            RandCropByPosNegLabeld(keys, "label", PATCH, pos=1, neg=1, num_samples=1),
        ]
    )
    items = [
        {"image": np.array(image), "label": np.array(mask)}
        for image, mask in zip(federation.train.images, federation.train.masks, strict=True)
    ]
    cached = CacheDataset(items, steps, progress=False)
    loader = DataLoader(cached, batch_size=batch, shuffle=True)

    def ours() -> int:
        return sum(len(one.images) for one in site.batches(0))

    def theirs() -> int:
        return sum(len(one["image"]) for one in loader)

    assert ours() == theirs() == len(items)
    took = seconds({"ours": ours, "monai": theirs}, repeats)
    print(
        f"epoch of {len(items)} patches {PATCH} in batches of {batch}, volumes of about {size}: "
        f"{1000 * took['ours']:.0f} ms, DataLoader + CacheDataset {1000 * took['monai']:.0f} ms: "
        f"{took['monai'] / took['ours']:.1f} x faster"
    )


def bench_windows(shape: tuple[int, ...], repeats: int) -> None:
    """Print what sliding costs without a network to speak of, and with a U-Net."""
    from monai.inferers import sliding_window_inference

    from feda3i.models.unet import UNet

    image = torch.randn(1, *shape)
    unet = UNet(1, 2, width=4, dimensions=3, norm="instance").eval()
    networks = {"no network": lambda x: torch.cat([x, x], dim=1), "U-Net of width 4": unet}
    for name, network in networks.items():
        works = {
            "ours": lambda net=network: slide(image, PATCH, net, torch.zeros(1)),
            "monai": lambda net=network: sliding_window_inference(
                image[None], PATCH, 4, net, overlap=0.5, mode="gaussian"
            ),
        }
        with torch.inference_mode():
            torch.testing.assert_close(
                works["ours"](), works["monai"]()[0], rtol=1e-3, atol=1e-3, check_stride=False
            )
            took = seconds(works, repeats)
        print(
            f"window {PATCH} over {shape}, {name}: {1000 * took['ours']:.0f} ms, MONAI's inferer "
            f"{1000 * took['monai']:.0f} ms: {took['monai'] / took['ours']:.2f} x"
        )


def main() -> None:
    """Print all ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="fewer repeats")
    repeats = 3 if parser.parse_args().short else 15
    with one_thread():
        bench_batches(48, 2, repeats)
        bench_batches(96, 2, repeats)
        bench_windows((48, 64, 48), repeats)
        bench_windows((96, 96, 96), max(2, repeats // 3))


if __name__ == "__main__":
    main()
