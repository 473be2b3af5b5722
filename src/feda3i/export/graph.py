"""``feda3i predict`` as one network: from an image of any size to its mask."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from feda3i.core.patches import window_weight
from feda3i.core.predictor import Predictor
from feda3i.errors import RunError
from feda3i.export.arithmetic import (
    as_seen,
    enlarged,
    labelled,
    line_of,
    shrunk,
    takes_bytes,
    traced_side,
)


class MaskGraph(nn.Module):
    """From one image ``(channel, *space)`` of any size to its mask ``(*space)``.

    The image holds bytes, or floats if the model normalises its images. The mask holds bytes: 0 is
    background, 1..C the classes, as ``Predictor.picture`` gives them.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.form = predictor.format
        self.network = predictor.network

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        form = self.form
        small = shrunk(image.to(torch.float32), form.shape, takes_bytes(form))
        seen = as_seen(small, line_of(small, form.normalise))
        found = torch.sigmoid(self.network(seen[None]))[0]
        return labelled(enlarged(found, form.shape, image))


class WindowGraph(MaskGraph):
    """The same for a model of patches, in the order of ``feda3i.core.patches.slide``.

    The canvas has a margin of about half a window on all sides, so that one graph serves images
    smaller and larger than a window.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__(predictor)
        patch = self.form.shape
        self.size = None if self.form.size is None else (self.form.size,) * len(patch)
        self.strides = [max(1, int(width * (1 - self.form.overlap))) for width in patch]
        weight = window_weight(patch, torch.float32).flatten().clone()  # the original is shared
        self.register_buffer("weight", weight)

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        from torch._higher_order_ops.while_loop import while_loop

        loop: Any = while_loop  # torch leaves it untyped
        canvas, places = self._canvas(image)
        windows = places[0].prod()

        def goes_on(number: Tensor, total: Tensor, weights: Tensor) -> Tensor:
            is_left: Tensor = number < windows
            return is_left

        def look(number: Tensor, total: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return number + 1, *self._add_window(number, canvas, places, total, weights)

        weights = torch.zeros_like(canvas[0]).flatten()
        total = torch.zeros_like(weights)[None].repeat(self.form.classes, 1)
        begin = (torch.zeros_like(windows), total, weights)
        _, total, weights = loop(goes_on, look, begin)
        # No window covers the outer margin.
        known = torch.where(weights > 0, weights, torch.ones_like(weights))
        found = (total / known).reshape(-1, *canvas.shape[1:])
        for axis, width in enumerate(self.form.shape):
            found = found.narrow(axis + 1, width // 2, canvas.shape[axis + 1] - width)
        found = torch.sigmoid(found)
        return labelled(found if self.size is None else enlarged(found, self.size, image))

    def _canvas(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the image with its margin, and ``(3, axis)``: number, first and last start."""
        values, patch = image.to(torch.float32), self.form.shape
        if self.size is not None:
            values = shrunk(values, self.size, takes_bytes(self.form))
        line = line_of(values, self.form.normalise)
        fill = values.flatten(1).amin(1, keepdim=True).to(torch.float64)
        fill = as_seen(fill, line).to(torch.float32).reshape(-1, *[1] * len(patch))
        margins = [m for width in reversed(patch) for m in (width // 2, width - width // 2)]
        is_inside = F.pad(torch.ones_like(values[:1]), margins) > 0
        canvas = torch.where(is_inside, F.pad(as_seen(values, line), margins), fill)
        places = []
        for axis, (width, stride) in enumerate(zip(patch, self.strides, strict=True)):
            side = traced_side(values, axis + 1).to(torch.int64)
            room = (side - width).clamp(min=0)
            lacking = torch.div((width - side).clamp(min=0), 2, rounding_mode="floor")
            count = torch.div(room + (stride - 1), stride, rounding_mode="floor") + 1
            first = width // 2 - lacking
            places.append(torch.stack([count, first, first + room]))
        return canvas, torch.stack(places, dim=1)

    def _add_window(
        self, number: Tensor, canvas: Tensor, places: Tensor, total: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums and weights with those of one window."""
        patch, rest = self.form.shape, number
        starts: list[Tensor] = []
        for axis in reversed(range(len(patch))):  # the last axis goes fastest
            count, first, last = places[:, axis].unbind()
            turn = torch.remainder(rest, count)
            rest = torch.div(rest, count, rounding_mode="floor")
            starts.insert(0, torch.minimum(first + turn * self.strides[axis], last))
        window, flat = canvas, torch.zeros_like(number)
        for axis, (start, width) in enumerate(zip(starts, patch, strict=True)):
            inside = start + torch.arange(width, device=canvas.device)
            window = window.index_select(axis + 1, inside)
            length = traced_side(canvas, axis + 1).to(torch.int64)
            flat = (flat * length)[..., None] + inside
        found = self.network(window[None])[0].flatten(1)
        index = flat.flatten()
        spread = index[None].expand(found.shape[0], -1)
        weight: Any = self.weight
        return total.scatter_add(1, spread, found * weight), weights.scatter_add(0, index, weight)


def graph_of(predictor: Predictor) -> MaskGraph:
    """Return the graph of a model; raise ``RunError`` if there is none that gives its masks."""
    form = predictor.format
    if form.spacing is not None:
        raise RunError(
            "this model resamples by the size of voxels (data.spacing), which no export is given; "
            "predict with feda3i, or resample the files first and train without data.spacing"
        )
    predictor.device = torch.device("cpu")  # the check of an export asks it as well
    predictor.network.cpu().eval()
    return WindowGraph(predictor) if form.patches else MaskGraph(predictor)
