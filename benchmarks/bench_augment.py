"""What augmentation costs: a site's round with and without it, and a batch beside other libraries.

Run: python benchmarks/bench_augment.py [--short]

MONAI comes with the extra ``dev``. kornia and torchvision are compared if they can be imported:
pip install --no-deps --target DIR kornia kornia_rs torchvision; PYTHONPATH=src:DIR python ...
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch import Tensor

from feda3i.core.augment import PRESETS, change_values, draw_places

Batches = Callable[[Tensor, Tensor], object]


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def bench_round(size: int, width: int, batch: int, preset: str, repeats: int) -> None:
    """Print the ratio of a site's fit with the preset to the same fit without it."""
    from feda3i import recipe
    from feda3i.core.messages import Order
    from feda3i.engine.host import SiteHost
    from feda3i.engine.run import job_of
    from feda3i.engine.transport import one_thread
    from feda3i.simulation.federation import federation_of

    fits = {}
    with one_thread():
        for augment in ("none", preset):
            made = recipe.load(
                None,
                [
                    *("data=synthetic-skin", "data.sites=1", "data.cases=16", "data.test=1"),
                    *(f"data.size={size}", f"model.width={width}", f"train.batch={batch}"),
                    *("train.epochs=1", f"train.augment={augment}", "engine.device=cpu"),
                ],
            )
            federation = federation_of(made)
            job = job_of(made, federation)
            station = SiteHost(job, federation.train, federation.sites, job_folder())
            order = Order("fit", 1, federation.names()[0], job.initial)
            fits[augment] = (station, order)
            station.answer(order)
        # Turn by turn, so that whatever else the machine does falls on both.
        times: dict[str, list[float]] = {augment: [] for augment in fits}
        for _ in range(repeats):
            for augment, (station, order) in fits.items():
                began = time.perf_counter()
                station.answer(order)
                times[augment].append(time.perf_counter() - began)
    plain, changed = (statistics.median(times[augment]) for augment in ("none", preset))
    print(
        f"round of one site, {size} px, U-Net width {width}, 16 cases in batches of {batch}: "
        f"{plain:.3f} s, with {preset} {changed:.3f} s: {changed / plain:.2f} x"
    )


def job_folder() -> object:
    """Return where a station would keep memory; FedAvg has none."""
    from pathlib import Path

    return Path("unused")


def ours(images: Tensor, masks: Tensor) -> object:
    """Change a batch as a site does."""
    preset, draw = PRESETS["dermoscopy"], np.random.default_rng(0)
    places = draw_places(preset, draw, images)
    assert places is not None
    moved = places(images, smooth=True), places(masks, smooth=False)
    return change_values(preset, draw, moved[0]), moved[1]


def with_monai() -> Batches:
    """Return the same changes by MONAI's dictionary transforms, case by case."""
    from monai import transforms as t

    keys, size = ("image", "mask"), 0.3
    every = t.Compose(
        [
            t.RandFlipd(keys, 0.5, 0),
            t.RandFlipd(keys, 0.5, 1),
            t.Rand2DElasticd(
                keys,
                spacing=(64, 64),
                magnitude_range=(0, 5),
                prob=1.0,
                rotate_range=np.pi,
                scale_range=0.2,
                mode=("bilinear", "nearest"),
                padding_mode="reflection",
            ),
            t.RandGaussianSmoothd("image", (0.1, 0.8), (0.1, 0.8), prob=size),
            t.RandGaussianNoised("image", size, std=0.03 * 255),
            t.RandAdjustContrastd("image", size, (0.7, 1.4)),
            t.RandScaleIntensityd("image", 0.2, 1.0),
            t.RandShiftIntensityd("image", 0.1 * 255, prob=1.0),
        ]
    ).set_random_state(0)
    return lambda images, masks: [
        every({"image": i, "mask": m}) for i, m in zip(images, masks, strict=True)
    ]


def with_kornia() -> Batches:
    """Return the same changes by kornia's augmentations of whole batches."""
    from kornia import augmentation as k

    every = k.AugmentationSequential(
        k.RandomHorizontalFlip(),
        k.RandomVerticalFlip(),
        k.RandomAffine(180.0, scale=(0.8, 1.25), padding_mode="reflection", p=1.0),
        k.RandomElasticTransform(kernel_size=(31, 31), sigma=(8.0, 8.0), p=0.3),
        k.RandomGaussianBlur((5, 5), (0.1, 0.8), p=0.3),
        k.RandomGaussianNoise(0.0, 0.03, p=0.3),
        k.RandomBrightness((0.9, 1.1), p=1.0),
        k.RandomContrast((0.8, 1.25), p=1.0),
        k.RandomGamma((0.7, 1.4), p=0.3),
        data_keys=["input", "mask"],
    )
    return lambda images, masks: every(images / 255, masks)


def with_torchvision() -> Batches:
    """Return the same changes by torchvision v2, case by case: a batch would share its draws."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    every = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.RandomVerticalFlip(),
            v2.RandomAffine(180, scale=(0.8, 1.25), interpolation=v2.InterpolationMode.BILINEAR),
            v2.RandomApply([v2.ElasticTransform(50.0, 8.0)], 0.3),
            v2.RandomApply([v2.GaussianBlur(5, (0.1, 0.8))], 0.3),
            v2.RandomApply([v2.GaussianNoise(0.0, 0.03)], 0.3),
            v2.ColorJitter(0.1, 0.2),
        ]
    )

    def change(images: Tensor, masks: Tensor) -> object:
        return [
            every(tv_tensors.Image(i / 255), tv_tensors.Mask(m))
            for i, m in zip(images, masks, strict=True)
        ]

    return change


def bench_libraries(size: int, batch: int, repeats: int) -> None:
    """Print how long a batch takes here and with the libraries that are there."""
    generator = torch.Generator().manual_seed(0)
    images = 255 * torch.rand((batch, 3, size, size), generator=generator)
    masks = (torch.rand((batch, 1, size, size), generator=generator) > 0.5).float()
    ours(images, masks)
    base = seconds(lambda: ours(images, masks), repeats)
    print(f"{batch} cases of {size} px: here {1e3 * base:.1f} ms", end="")
    for name, make in (
        ("MONAI", with_monai),
        ("kornia", with_kornia),
        ("torchvision v2", with_torchvision),
    ):
        try:
            change = make()
        except (ImportError, RuntimeError):
            print(f"; {name} not there", end="")
            continue
        change(images, masks)
        took = seconds(lambda change=change: change(images, masks), repeats)
        print(f"; {name} {1e3 * took:.1f} ms ({took / base:.1f} x)", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer repeats")
    repeats = 3 if parser.parse_args().short else 9
    torch.set_num_threads(1)
    bench_round(48, 8, 4, "dermoscopy", 5 * repeats)
    bench_round(256, 16, 8, "dermoscopy", repeats)
    bench_libraries(48, 4, 10 * repeats)
    bench_libraries(256, 8, repeats)


if __name__ == "__main__":
    main()
