"""Write the graph as ONNX, TorchScript or ``torch.export``, and look whether it answers alike."""

from __future__ import annotations

import io
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from feda3i.basics.files import write_file
from feda3i.core.predictor import Predictor
from feda3i.errors import RecipeError, RunError
from feda3i.export.arithmetic import takes_bytes
from feda3i.export.graph import Graph
from feda3i.export.windows import WindowGraph
from feda3i.seeding import rng

if TYPE_CHECKING:
    from torch import Tensor

Ask = Callable[[NDArray[Any]], NDArray[np.uint8]]
"""From an image ``(channel, *space)`` to its mask, with a file that was written."""
DIFFERING = 1e-3
"""Share of pixels that may differ in a check: OpenCV rounds where it enlarges small images."""
SQUEEZED = ((1.0, 1.0), (2.0, 2.0), (1.37, 2.91))
"""Sizes of test images, as multiples of the network's: its own, twice it, odd ones."""
WINDOWS = ((1.0, 1.0), (0.6, 0.75), (0.8, 1.9), (1.37, 1.37))
"""The same where a window slides: one window, larger than the image, some windows along an axis."""


def write_onnx(graph: Graph, path: Path) -> Ask:
    """Write ONNX; return how onnxruntime answers with it."""
    need("onnx", "onnxscript", "onnxruntime")
    with quiet():
        import onnx_ir.passes.common as passes

        program: Any = torch.onnx.export(
            _exported(graph),
            dynamo=True,
            verbose=False,
            input_names=["image"],
            output_names=["mask"],
        )
        # Notes on every node would name the folders of this computer.
        passes.ClearMetadataAndDocStringPass()(program.model)
    write_file(path, program.model_proto.SerializeToString())
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def ask(image: NDArray[Any]) -> NDArray[np.uint8]:
        mask: NDArray[np.uint8] = session.run(["mask"], {"image": image})[0]
        return mask

    return ask


def write_torchscript(graph: torch.nn.Module, path: Path, example: Tensor | None = None) -> Ask:
    """Write TorchScript by tracing; return how it answers when it is read again."""
    buffer = io.BytesIO()
    jit: Any = torch.jit  # torch leaves it untyped
    with quiet(), torch.inference_mode():
        jit.save(scripted(graph, example), buffer)
        write_file(path, _without_notes(buffer.getvalue()))
        read = jit.load(str(path))
    return lambda image: _answer(read, image)


def _without_notes(archive: bytes) -> bytes:
    """Return TorchScript without its notes for debuggers: they name folders of this computer."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as given, zipfile.ZipFile(made, "w") as kept:
        for entry in given.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(entry, given.read(entry))
    return made.getvalue()


def scripted(graph: torch.nn.Module, example: Tensor | None = None) -> Any:
    """Return a graph in TorchScript: traced, with a loop around the windows if there are any."""
    if isinstance(graph, WindowGraph):
        return graph.scripted()
    jit: Any = torch.jit
    given = _example(graph) if example is None else example
    return jit.trace(graph, (given,), check_trace=False)


def write_torch_export(graph: Graph, path: Path) -> Ask:
    """Write a program of ``torch.export``; return how it answers when it is read again."""
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(_exported(graph), buffer)
        write_file(path, buffer.getvalue())
        read = torch.export.load(str(path)).module()
    return lambda image: _answer(read, image)


def check_alike(ask: Ask, predictor: Predictor, what: str) -> tuple[int, int, int]:
    """Return how many of the pixels of test images differ from ``Predictor.picture``, of how many.

    The third number says how many are background: none or all, and the check saw no border.

    Raises ``RunError`` if more do than rounding explains.
    """
    differing = total = empty = 0
    form = predictor.format
    takes = np.uint8 if takes_bytes(form) else np.float32
    factors = WINDOWS if form.patches else SQUEEZED
    for sample in samples(form.shape, form.channels, factors):
        image = sample.astype(takes)
        expected = predictor.picture(image)
        found = ask(np.ascontiguousarray(np.moveaxis(image, -1, 0)))
        differing += int((found != expected).sum())
        total += expected.size
        empty += int((expected == 0).sum())
    if differing > DIFFERING * total:
        raise RunError(
            f"the {what} that was written gives other masks than feda3i predict: {differing} of "
            f"{total} pixels differ; this network cannot be exported in this format"
        )
    return differing, total, empty


def samples(
    size: tuple[int, ...], channels: int, factors: Sequence[tuple[float, float]] = SQUEEZED
) -> Iterator[NDArray[np.uint8]]:
    """Yield smooth images at multiples of the network's size."""
    import cv2

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


@contextmanager
def quiet() -> Iterator[None]:
    """Keep notes of torch about its own exporters off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _exported(graph: Graph) -> torch.export.ExportedProgram:
    names = ("height", "width") if len(graph.size) == 2 else ("depth", "height", "width")
    sides = {axis + 1: torch.export.Dim(name, min=2) for axis, name in enumerate(names)}
    with torch.no_grad():
        made = torch.export.export(graph, (_example(graph),), dynamic_shapes=(sides,))
    for module in made.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            node.meta.pop("stack_trace", None)  # it names the folders of this computer
    return made


def _example(graph: Any) -> Tensor:
    sides = [side + 3 + 2 * k for k, side in enumerate(graph.size)]
    return torch.zeros((graph.channels, *sides), dtype=graph.dtype)


def _answer(network: Any, image: NDArray[Any]) -> NDArray[np.uint8]:
    with torch.inference_mode():
        mask: NDArray[np.uint8] = network(torch.from_numpy(image)).numpy()
    return mask
