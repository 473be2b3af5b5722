"""The way from an image of any size to its mask for a model that slides a window over it.

Three pieces without any branch (prepare, look through one window, decide) and a loop around the
second. TorchScript gets a scripted loop around traced pieces; ``torch.export`` and ONNX a loop of
their own. The arithmetic is that of ``feda3i.core.patches.slide``, window by window in its order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from feda3i.core.patches import window_weight
from feda3i.core.predictor import Predictor
from feda3i.export.arithmetic import (
    as_seen,
    enlarged,
    labelled,
    line_of,
    shrunk,
    takes_bytes,
    traced_side,
)


class Prepare(nn.Module):
    """From an image to a canvas, sums over windows that are still empty, and the windows' places.

    The canvas has a margin of about half a window on all sides, so that an image that is smaller
    than a window needs no other graph than a large one.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        form = predictor.format
        self.form, self.patch = form, form.shape
        self.strides = [max(1, int(width * (1 - form.overlap))) for width in form.shape]

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return canvas, empty sums and weights, and ``(3, axis)``: number, first, last start."""
        values = image.to(torch.float32)
        if self.form.size is not None:
            size = (self.form.size,) * len(self.patch)
            values = shrunk(values, size, self.form.aspect, takes_bytes(self.form))
        line = line_of(values, self.form.normalise)
        fill = values.flatten(1).amin(1, keepdim=True).to(torch.float64)
        fill = as_seen(fill, line).to(torch.float32).reshape(-1, *[1] * len(self.patch))
        margins = [m for p in reversed(self.patch) for m in (p // 2, p - p // 2)]
        is_inside = F.pad(torch.ones_like(values[:1]), margins) > 0
        canvas = torch.where(is_inside, F.pad(as_seen(values, line), margins), fill)
        weights = torch.zeros_like(canvas[0]).flatten()
        total = torch.zeros_like(weights)[None].repeat(self.form.classes, 1)
        return canvas, total, weights, self._places(values)

    def _places(self, values: Tensor) -> Tensor:
        found = []
        for axis, (width, stride) in enumerate(zip(self.patch, self.strides, strict=True)):
            side = traced_side(values, axis + 1).to(torch.int64)
            room = (side - width).clamp(min=0)
            lacking = torch.div((width - side).clamp(min=0), 2, rounding_mode="floor")
            count = torch.div(room + (stride - 1), stride, rounding_mode="floor") + 1
            first = width // 2 - lacking
            found.append(torch.stack([count, first, first + room]))
        return torch.stack(found, dim=1)


class OneWindow(nn.Module):
    """Add what the network says of one window to the sums."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        form = predictor.format
        self.patch = form.shape
        self.strides = [max(1, int(width * (1 - form.overlap))) for width in form.shape]
        self.network = predictor.network
        self.answer = predictor.forward
        weight = window_weight(form.shape, torch.float32).flatten().clone()  # it is shared
        self.register_buffer("weight", weight)

    def forward(
        self, number: Tensor, canvas: Tensor, total: Tensor, weights: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums and weights with those of a window, counted as ``slide`` does."""
        window, rest = canvas, number
        flat = torch.zeros_like(number)
        starts: list[Tensor] = []
        for axis in reversed(range(len(self.patch))):  # the last axis goes fastest
            count, first, last = places[:, axis].unbind()
            turn = torch.remainder(rest, count)
            rest = torch.div(rest, count, rounding_mode="floor")
            starts.insert(0, torch.minimum(first + turn * self.strides[axis], last))
        for axis, (start, width) in enumerate(zip(starts, self.patch, strict=True)):
            inside = start + torch.arange(width, device=canvas.device)
            window = window.index_select(axis + 1, inside)
            length = traced_side(canvas, axis + 1).to(torch.int64)
            flat = (flat * length)[..., None] + inside
        found = self.answer(self.network, window[None])[0].flatten(1)
        index = flat.flatten()
        spread = index[None].expand(found.shape[0], -1)
        weight: Any = self.weight
        return total.scatter_add(1, spread, found * weight), weights.scatter_add(0, index, weight)


class Decide(nn.Module):
    """From the sums over windows to the mask."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.form, self.patch = predictor.format, predictor.format.shape

    def forward(self, image: Tensor, canvas: Tensor, total: Tensor, weights: Tensor) -> Tensor:
        """Return the mask ``(*space)`` of an image."""
        seen = torch.ones_like(weights)
        known = torch.where(weights > 0, weights, seen)  # windows leave out parts of the margin
        logits = (total / known).reshape(-1, *canvas.shape[1:])
        for axis, width in enumerate(self.patch):
            logits = logits.narrow(axis + 1, width // 2, canvas.shape[axis + 1] - width)
        found = torch.sigmoid(logits)
        if self.form.size is not None:
            size = (self.form.size,) * len(self.patch)
            found = enlarged(found, size, image, self.form.aspect)
        return labelled(found)


class WindowGraph(nn.Module):
    """From one image ``(channel, *space)`` of any size to its mask, through sliding windows.

    It takes and gives what ``MaskGraph`` does. Its loop is one that ``torch.export`` knows.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        form = predictor.format
        self.prepare, self.look = Prepare(predictor), OneWindow(predictor)
        self.decide = Decide(predictor)
        self.dtype = torch.uint8 if takes_bytes(form) else torch.float32
        self.size, self.channels = form.shape, form.channels

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        from torch._higher_order_ops.while_loop import while_loop

        loop: Any = while_loop  # torch leaves it untyped

        canvas, total, weights, places = self.prepare(image)
        windows = places[0].prod()

        def goes_on(number: Tensor, total: Tensor, weights: Tensor) -> Tensor:
            is_left: Tensor = number < windows
            return is_left

        def look(number: Tensor, total: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            total, weights = self.look(number, canvas, total, weights, places)
            return number + 1, total, weights

        begin = (torch.zeros_like(windows), total, weights)
        _, total, weights = loop(goes_on, look, begin)
        mask: Tensor = self.decide(image, canvas, total, weights)
        return mask

    def scripted(self) -> Any:
        """Return the graph for TorchScript, which is no other than this one."""
        jit: Any = torch.jit  # torch leaves it untyped
        sides = [side + 3 + 2 * k for k, side in enumerate(self.size)]
        image = torch.zeros((self.channels, *sides), dtype=self.dtype)
        canvas, total, weights, places = self.prepare(image)
        one = (torch.zeros((), dtype=torch.int64), canvas, total, weights, places)
        pieces = [
            jit.trace(piece, given, check_trace=False)
            for piece, given in (
                (self.prepare, (image,)),
                (self.look, one),
                (self.decide, (image, canvas, total, weights)),
            )
        ]
        return jit.script(ScriptedLoop(*pieces))


class ScriptedLoop(nn.Module):
    """The loop over windows as TorchScript reads it."""

    def __init__(self, prepare: nn.Module, look: nn.Module, decide: nn.Module) -> None:
        super().__init__()
        self.prepare, self.look, self.decide = prepare, look, decide

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        canvas, total, weights, places = self.prepare(image)
        for number in range(int(places[0].prod())):
            at = torch.full((), number, dtype=torch.int64, device=image.device)
            total, weights = self.look(at, canvas, total, weights, places)
        mask: Tensor = self.decide(image, canvas, total, weights)
        return mask
