"""The way from an image as it comes to its mask as one network: what ``feda3i predict`` does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from feda3i.core.format import Format
from feda3i.core.predictor import Predictor
from feda3i.errors import RunError
from feda3i.export.arithmetic import as_seen, enlarged, labelled, line_of, shrunk, takes_bytes
from feda3i.export.windows import WindowGraph


class MaskGraph(nn.Module):
    """From one image ``(channel, *space)`` of any size to its mask ``(*space)``.

    The image holds bytes, or floats if the model normalises its images. The mask holds bytes: 0 is
    background, 1..C the classes, as ``Predictor.picture`` gives them.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        form = predictor.format
        self.normalise = form.normalise
        self.dtype = torch.uint8 if takes_bytes(form) else torch.float32
        self.network = predictor.network
        self.answer = predictor.forward
        self.size = form.shape
        self.channels = form.channels
        self.aspect = form.aspect

    def forward(self, image: Tensor) -> Tensor:
        """Return the mask of an image."""
        small = shrunk(image.to(torch.float32), self.size, self.aspect, self.dtype == torch.uint8)
        seen = as_seen(small, line_of(small, self.normalise))
        found = torch.sigmoid(self.answer(self.network, seen[None]))[0]
        return labelled(enlarged(found, self.size, image, self.aspect))


Graph = MaskGraph | WindowGraph


def graph_of(predictor: Predictor) -> Graph:
    """Return the graph of a model; raise ``RunError`` if there is none that gives its masks."""
    form = predictor.format
    _check(form)
    predictor.device = torch.device("cpu")  # the check of an export asks it as well
    predictor.network.cpu().eval()
    return WindowGraph(predictor) if form.patches else MaskGraph(predictor)


def _check(form: Format) -> None:
    if form.aspect == "crop":
        raise RunError(
            "this model takes the central square of each picture (data.aspect=crop), which an "
            "export cannot do; crop pictures yourself and train with data.aspect=squeeze"
        )
    if form.spacing is not None:
        raise RunError(
            "this model resamples volumes by the size of their voxels (data.spacing), which is in "
            "a file's header and not among the values that an export is given; predict with "
            "feda3i, or resample the files first and train without data.spacing"
        )
