"""Time the contour evolution against its floor and against a loop over contour pixels.

Floor: find the contour and fill a polygon of it, which no implementation can do without. Slow side:
``tests/unit/noise/naive_contour.py``, the published algorithm with a line fit per contour pixel,
which is also the oracle of the faithful mode. One thread; each ratio is of two times measured in
turn on the same mask, its median over the masks.

With ``--table`` it prints area ratios of discs instead, as measured on the published code; with
``--scaling`` how noise on small masks compares with noise at 256 pixels that is reduced afterwards.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i.noise import Annotator, ContourEvolution, SignedDistanceEvolution
from feda3i.noise.noisy_masks import mean_dice

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "noise"))
from naive_contour import naive_evolution

from noise_shapes import disc

Mask = NDArray[np.uint8]
SETTINGS = ((5.0, 2.0), (-8.0, 5.0), (20.0, 10.0), (-20.0, 10.0))
SIDE = 256
MODELS = ((8, 1e-3), (-8, 1e-3), (-15, 1e-3), (8, 5), (-8, 5), (20, 10), (-20, 10))
MEASURED = {  # on the published code, 20 draws a cell; None where it shows an artefact
    70: (1.24, 0.78, 0.62, 1.25, 0.79, 1.67, 0.52),
    40: (1.44, 0.64, 0.39, 1.45, 0.65, 2.28, 0.28),
    20: (1.97, 0.36, 0.07, 2.07, 0.50, 4.34, 0.12),
    10: (3.27, 0.14, None, 6.2, None, 11.6, None),
}


def lesion(rng: np.random.Generator) -> Mask:
    """Return one wavy object with a contour of about 330 pixels."""
    rows, cols = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    angle = np.arctan2(rows, cols)
    waves = (rng.normal(0, 9 / k) * np.cos(k * angle + rng.uniform(0, 6.28)) for k in range(2, 7))
    return (np.hypot(rows, cols) <= 56.0 + sum(waves)).astype(np.uint8)


def floor(mask: Mask) -> Mask:
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return cv2.fillPoly(np.zeros_like(mask), found, 1)


def best_time(work: Callable[[], object], repeat: int) -> float:
    """Return the shortest of several times: what the work takes when nothing disturbs it."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def time_masks(masks: list[Mask], mu: float, sigma: float) -> tuple[NDArray[np.float64], bool]:
    """Return seconds ``(mask, [floor, robust, faithful, naive])`` and whether bits are equal."""
    robust, faithful = ContourEvolution(mu, sigma), ContourEvolution(mu, sigma, mode="faithful")
    rows, is_same = [], True
    for k, mask in enumerate(masks):
        expected = naive_evolution(mask, mu, sigma, np.random.default_rng(k))
        is_same &= np.array_equal(faithful(mask, np.random.default_rng(k)), expected)
        rng = np.random.default_rng(k)
        jobs = (
            partial(floor, mask),
            partial(robust, mask, rng),
            partial(faithful, mask, rng),
            partial(naive_evolution, mask, mu, sigma, rng),
        )
        rows.append([best_time(job, 40 if n < 3 else 3) for n, job in enumerate(jobs)])
    return np.array(rows), is_same


def print_times(count: int) -> bool:
    """Print the table of times and ratios; return whether faithful and oracle agree."""
    masks = [lesion(np.random.default_rng([3, k])) for k in range(count)]
    found = [cv2.findContours(m, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)[0][0] for m in masks]
    length = np.mean([len(contour) for contour in found])
    print(f"{count} masks of {SIDE} x {SIDE} px, contours of {length:.0f} px on average\n")
    print("| noise | floor | robust | faithful | naive | robust/floor | faithful/floor |", end="")
    print(" naive/robust | naive/faithful | same bits |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    is_same = True
    for mu, sigma in SETTINGS:
        times, equal = time_masks(masks, mu, sigma)
        low, robust, faithful, naive = np.median(times, axis=0) * 1e3
        a, b, c, d = (
            np.median(times[:, x] / times[:, y]) for x, y in ((1, 0), (2, 0), (3, 1), (3, 2))
        )
        print(
            f"| C({mu:g}, {sigma:g}) | {low:.3f} ms | {robust:.3f} ms | {faithful:.3f} ms "
            f"| {naive:.1f} ms | {a:.1f} | {b:.1f} | {c:.0f} | {d:.0f} "
            f"| {'yes' if equal else 'NO'} |"
        )
        is_same &= equal
    return is_same


def print_ratios(draws: int) -> None:
    """Print area ratios of discs with their standard errors, beside the measured ones."""
    kinds = {
        "published code": None,
        "faithful": partial(ContourEvolution, mode="faithful"),
        "robust": ContourEvolution,
        "levelset": SignedDistanceEvolution,
    }
    print("| radius | |", " | ".join(f"C({mu}, {sigma:g})" for mu, sigma in MODELS), "|")
    print("|---|---|" + "---|" * len(MODELS))
    for radius, measured in MEASURED.items():
        clean = disc(radius)
        for name, kind in kinds.items():
            if kind is None:
                cells = ["(!)" if m is None else f"{m:g}" for m in measured]
                print(f"| {radius} | {name} |", " | ".join(cells), "|")
                continue
            cells = []
            for mu, sigma in MODELS:
                rng = np.random.default_rng([radius, abs(mu)])
                model = kind(mu, sigma)
                few = draws if sigma > 0.1 else max(2, draws // 20)
                areas = np.array([model(clean, rng).sum() for _ in range(few)]) / clean.sum()
                error = areas.std(ddof=1) / np.sqrt(few)
                cells.append(f"{areas.mean():.3f}" + (f" ±{error:.3f}" if error > 5e-4 else ""))
            print(f"| | {name} |", " | ".join(cells), "|", flush=True)


def reduce(mask: Mask, side: int) -> Mask:
    small = cv2.resize(mask.astype(np.float32), (side, side), interpolation=cv2.INTER_AREA)
    return (small >= 0.5).astype(np.uint8)


def print_scaling(cases: int, draws: int) -> None:
    """Print Dice and area ratio of noise on small masks, drawn in three ways."""
    from feda3i.synthetic.skin import skin_case

    large = [skin_case(np.random.default_rng(k), SIDE)[1] for k in range(cases)]
    print("| size | noise at 256 px | reference | scaled | enlarged, drawn at 256, reduced |")
    print("|---|---|---|---|---|")
    for side in (128, 64, 48):
        for mu, sigma in ((8, 5), (-8, 5), (20, 10), (-15, 7), (2, 1)):
            model = ContourEvolution(mu, sigma)
            small = ContourEvolution.for_annotator(Annotator(mu, sigma).scaled(side / SIDE))
            found = []
            for k, mask in enumerate(large):
                clean = reduce(mask, side)
                again = cv2.resize(clean, (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
                for draw in range(draws):
                    noisy = (
                        reduce(model(mask, np.random.default_rng([k, draw])), side),
                        small(clean, np.random.default_rng([k, draw])),
                        reduce(model(again, np.random.default_rng([k, draw])), side),
                    )
                    found.append([(mean_dice(clean, n), n.sum() / clean.sum()) for n in noisy])
            cells = [f"{dice:.3f} / {ratio:.3f}" for dice, ratio in np.mean(found, axis=0)]
            print(f"| {side} | C({mu}, {sigma}) |", " | ".join(cells), "|", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--masks", type=int, default=24, help="number of masks to time")
    parser.add_argument("--table", action="store_true", help="print area ratios of discs instead")
    parser.add_argument("--scaling", action="store_true", help="print noise on small masks instead")
    parser.add_argument("--draws", type=int, default=400, help="draws per cell of that table")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    warnings.simplefilter("ignore")
    if options.scaling:
        print_scaling(60, 3)
        return 0
    if options.table:
        print_ratios(options.draws)
        return 0
    return 0 if print_times(options.masks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
