"""Loading, packing and preparing: ratios against a bare loop and against other sizes of the set.

Limits: loading a prepared set at most 1.3 x a bare loop of the same decoder over as many processes;
the second start at least 10 x faster than the first; the memory of ``prepare`` does not grow.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
from feda3i.prepare.own import prepare_folder
from PIL import Image

from feda3i.data.folder import load_folder
from feda3i.reading.decode import Options

CASES = int(os.environ.get("BENCH_CASES", "2000"))
SIZE = 128
REPEATS = 5


def draw(root: Path, count: int, side: int) -> None:
    """Write images that compress about as well as photographs of skin, with masks."""
    rng = np.random.default_rng(0)
    for kind in ("images", "masks"):
        (root / kind).mkdir(parents=True)
    for number in range(count):
        coarse = rng.uniform(60, 230, (6, 6, 3)).astype(np.float32)
        image = cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC)
        image += rng.normal(0, 2, image.shape)
        mask = np.zeros((side, side), np.uint8)
        centre = tuple(int(v) for v in rng.integers(side // 3, 2 * side // 3, 2))
        cv2.circle(mask, centre, int(rng.integers(side // 8, side // 3)), 255, -1)
        pixels = np.clip(image, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / "images" / f"c{number:05d}.jpg", quality=92)
        Image.fromarray(mask).save(root / "masks" / f"c{number:05d}.png")


def best(*calls: Callable[[], object]) -> list[float]:
    """Return the shortest time of each call; calls take turns, so a busy machine hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def bare(files: list[str]) -> None:
    for file in files:
        np.asarray(Image.open(file))


def bare_in_processes(files: list[str], count: int) -> None:
    """Run the bare loop in forked processes: nothing is sent to them or back."""
    children = []
    for start in range(count):
        child = os.fork()
        if child == 0:
            bare(files[start::count])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def bench_load(prepared: Path) -> None:
    files = [str(f) for kind in ("images", "masks") for f in sorted((prepared / kind).iterdir())]
    for count in (1, os.cpu_count() or 1):
        plain, ours = best(
            lambda n=count: bare_in_processes(files, n),
            lambda n=count: load_folder(prepared, cache=False, workers=n),
        )
        print(f"load {len(files) // 2} cases, {count} process(es)", end="  ")
        print(f"bare {plain:.2f} s  ours {ours:.2f} s  ratio {ours / plain:.2f}  (limit 1.3)")


def bench_cache(prepared: Path, folder: Path) -> None:
    def first() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        load_folder(prepared, cache=folder, workers=1)

    cold, warm = best(first, lambda: load_folder(prepared, cache=folder, workers=1))
    print(f"start: first {cold:.2f} s  second {warm:.3f} s  {cold / warm:.0f} x  (limit 10)")


def bench_prepare(source: Path, root: Path) -> None:
    count = len(list((source / "images").iterdir()))
    cores = os.cpu_count() or 1
    for workers in (1, cores):
        target = root / f"prepared{workers}"
        start = time.perf_counter()
        prepare_folder(source, target, options=Options(size=SIZE), workers=workers)
        first = time.perf_counter() - start
        start = time.perf_counter()
        prepare_folder(source, target, options=Options(size=SIZE), workers=workers)
        again = time.perf_counter() - start
        print(
            f"prepare {count} cases of 512 px, {workers} process(es)  {count / first:.0f} cases/s, "
            f"repeated {count / again:.0f} cases/s"
        )


def bench_memory(root: Path) -> None:
    """Print the peak memory of preparing few and many cases in a process of their own."""
    peaks = []
    for count in (CASES // 10, CASES):
        source = root / f"memory{count}"
        draw(source, count, 256)
        command = [sys.executable, __file__, "--peak", str(source), str(root / f"out{count}")]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peaks.append((count, int(text)))
    (few, small), (many, large) = peaks
    print(f"memory of prepare: {small / 1024:.0f} MB for {few} cases", end=", ")
    print(f"{large / 1024:.0f} MB for {many}  ratio {large / small:.2f}")


def print_peak(source: Path, target: Path) -> None:
    prepare_folder(source, target, options=Options(size=64), workers=1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    cv2.setNumThreads(0)
    if sys.argv[1:2] == ["--peak"]:
        print_peak(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        draw(root / "small", CASES, SIZE)
        prepare_folder(root / "small", root / "prepared", options=Options(size=SIZE))
        bench_load(root / "prepared")
        bench_cache(root / "prepared", root / "cache")
        draw(root / "large", CASES // 5, 512)
        bench_prepare(root / "large", root)
        bench_memory(root)


if __name__ == "__main__":
    main()
