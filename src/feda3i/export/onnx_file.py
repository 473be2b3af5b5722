"""Write a graph as ONNX, and compare its masks with those of ``feda3i predict``."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from feda3i.core.predictor import Predictor
from feda3i.errors import RecipeError, RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.graph import MaskGraph
from feda3i.files import write_file
from feda3i.seeding import rng

Ask = Callable[[NDArray[Any]], NDArray[np.uint8]]
"""From an image ``(channel, *space)`` to its mask, by a file that was written."""
DIFFERING = 1e-3  # share of pixels: OpenCV rounds where it enlarges small images
SQUEEZED = ((1.0, 1.0), (2.0, 2.0), (1.37, 2.91))
"""Sizes of test images, as multiples of the network's: its own, twice it, odd ones."""
WINDOWS = ((1.0, 1.0), (0.6, 0.75), (0.8, 1.9), (1.37, 1.37))
"""The same for windows: one window, larger than the image, several windows along an axis."""


def write_onnx(graph: MaskGraph, path: Path) -> Ask:
    """Write ONNX; return how onnxruntime answers with it."""
    need("onnx", "onnxscript", "onnxruntime")
    with _quiet():
        import onnx_ir.passes.common as passes

        names: dict[str, Any] = {"input_names": ["image"], "output_names": ["mask"]}
        program: Any = torch.onnx.export(_exported(graph), dynamo=True, verbose=False, **names)
        # Notes on every node would name the folders of this computer.
        passes.ClearMetadataAndDocStringPass()(program.model)
    write_file(path, program.model_proto.SerializeToString())
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda image: np.asarray(session.run(["mask"], {"image": image})[0], np.uint8)


def _exported(graph: MaskGraph) -> torch.export.ExportedProgram:
    form = graph.form
    names = ("depth", "height", "width")[-form.dimensions :]
    sides = {axis + 1: torch.export.Dim(name, min=2) for axis, name in enumerate(names)}
    shape = [side + 3 + 2 * axis for axis, side in enumerate(form.shape)]
    dtype = torch.uint8 if takes_bytes(form) else torch.float32
    example = torch.zeros((form.channels, *shape), dtype=dtype)
    with torch.no_grad():
        return torch.export.export(graph, (example,), dynamic_shapes=(sides,))


def check_masks(ask: Ask, predictor: Predictor) -> tuple[int, int, int]:
    """Return how many pixels of test images differ from ``Predictor.picture``, and of how many.

    The third number counts background: if it is none or all, the check saw no border. Raises
    ``RunError`` if more pixels differ than rounding explains.
    """
    differing = total = empty = 0
    form = predictor.format
    for sample in samples(form.shape, form.channels, WINDOWS if form.patches else SQUEEZED):
        image = sample if takes_bytes(form) else sample.astype(np.float32)
        expected = predictor.picture(image)
        found = ask(np.ascontiguousarray(np.moveaxis(image, -1, 0)))
        differing += int((found != expected).sum())
        empty += int((expected == 0).sum())
        total += expected.size
    if differing > DIFFERING * total:
        raise RunError(
            f"the ONNX file gives other masks than feda3i predict: {differing} of {total} pixels "
            "differ; this network cannot be exported"
        )
    return differing, total, empty


def samples(
    size: tuple[int, ...], channels: int, factors: Sequence[tuple[float, float]] = SQUEEZED
) -> Iterator[NDArray[np.uint8]]:
    """Yield smooth images at multiples of the network's size."""
    for number, by in enumerate(factors):
        shape = [max(2, round(side * by[k % 2])) for k, side in enumerate(size)]
        draw = rng(0, "export", number)
        flat = int(np.prod(shape[:-1])), shape[-1]
        coarse = draw.uniform(0, 255, (8, 8, channels)).astype(np.float32)
        smooth = cv2.resize(coarse, flat[::-1], interpolation=cv2.INTER_CUBIC)
        noisy = smooth.reshape(*shape, channels) + draw.normal(0, 8, (*shape, channels))
        yield np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def need(*packages: str) -> None:
    """Raise ``RecipeError`` unless all packages are installed."""
    lacking = [name for name in packages if find_spec(name) is None]
    if lacking:
        raise RecipeError(f"this format needs {', '.join(lacking)}: pip install 'feda3i[export]'")
    # Some builds of onnxruntime open a telemetry session as soon as they are imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch says of its own exporter off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
