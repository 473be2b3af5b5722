"""From images to probabilities and masks: every prediction takes this path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from feda3i.core.format import Format
from feda3i.core.layout import Layout
from feda3i.core.messages import Params
from feda3i.core.normalise import Line, apply_lines
from feda3i.core.patches import slide
from feda3i.core.ragged import Stack, stacked
from feda3i.core.resize import resize_image, restore_map
from feda3i.errors import DataError

BATCH = 8  # images that a network looks at together when nothing is trained


class Predictor:
    """A network on a device (the CPU by default) with all that is needed to read its answers."""

    def __init__(
        self, network: nn.Module, layout: Layout, format: Format, device: torch.device | None = None
    ) -> None:
        self.layout = layout
        self.format = format
        self.device = device or torch.device("cpu")
        # torch's types know no memory_format here, although modules take it.
        formatted: Any = {"memory_format": channels_last(format.dimensions)}
        self.network: nn.Module = network.to(self.device, **formatted)

    def load(self, params: Params) -> Predictor:
        """Put parameters into the network."""
        self.layout.write(params, self.network)
        return self

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits ``(case, class, *space)`` of images on the device, in eval mode."""
        with evaluating(self.network), torch.inference_mode():
            found: Tensor = self.network(images)
            return found

    def whole(self, image: NDArray[Any], line: Line | None = None) -> tuple[Tensor, Tensor]:
        """Return a case ``(*space, channel)`` as the network sees it, and its logits, by windows.

        ``line`` normalises the case, if that is known already.
        """
        line = self.format.normalise.line(image) if line is None else line
        tensor = apply_lines(image_tensor(np.array(image[None]), self.device), [line])
        fill = torch.from_numpy(line.fill).to(tensor)
        with torch.inference_mode():
            found = slide(tensor[0], self.format.shape, self.logits, fill, self.format.overlap)
        return tensor, found[None]

    def probabilities(self, images: Stack, params: Params | None = None) -> Any:
        """Return the probabilities ``(case, class, *space)`` of images ``(case, *space, channel)``.

        Images have the size that the network takes, or any size if it was trained on patches.
        """
        if params is not None:
            self.load(params)
        if self.format.patches:
            return self._sliding(images)
        images = np.asarray(images)
        expected = (*self.format.shape, self.format.channels)
        if tuple(images.shape[1:]) != expected:
            raise DataError(f"expected images of {expected}, found {tuple(images.shape[1:])}")
        parts = [np.zeros((0, self.format.classes, *self.format.shape), np.float32)]
        for start in range(0, len(images), BATCH):
            batch = self.seen(images[start : start + BATCH])
            parts.append(torch.sigmoid(self.logits(batch)).cpu().numpy())
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _sliding(self, images: Stack) -> Stack:
        found = []
        for image in images:
            form = self.format
            if image.ndim != form.dimensions + 1 or image.shape[-1] != form.channels:
                expected = f"{form.dimensions} dimensions with {form.channels} channels"
                raise DataError(f"expected images of {expected}, found {image.shape}")
            found.append(torch.sigmoid(self.whole(image)[1])[0].cpu().numpy())
        empty = np.zeros((0, self.format.classes, *self.format.shape), np.float32)
        return stacked(found) if found else empty

    def seen(self, images: NDArray[Any]) -> Tensor:
        """Return images ``(case, *space, channel)`` on the device as the network sees them."""
        rule = self.format.normalise
        tensor = image_tensor(images, self.device)
        return tensor if rule.is_none else apply_lines(tensor, [rule.line(one) for one in images])

    def masks(self, images: Stack, params: Params | None = None) -> Any:
        """Return masks ``(case, *space)`` with values 0..C."""
        found = self.probabilities(images, params)
        if isinstance(found, np.ndarray):
            return label_map(found)
        return stacked([label_map(one[None])[0] for one in found])

    def picture(
        self, pixels: NDArray[Any], spacing: Sequence[float] | None = None
    ) -> NDArray[np.uint8]:
        """Return the mask ``(*space)`` of one image ``(*space, channel)`` of any size.

        The image is brought to the network's size as the training cases were, and probabilities
        back to its own. ``spacing`` is in millimetres, where the training resampled.
        """
        size = self.format.sides(pixels.shape[:-1], spacing)
        small = resize_image(pixels, size)
        found = self.probabilities(small[None])[0]
        large = np.stack([restore_map(one, pixels.shape[:-1]) for one in found])
        return np.asarray(label_map(large[None])[0])


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into eval mode within this context."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def label_map(probabilities: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return values 0..C from ``(case, class, *space)``: the likeliest class above one half."""
    best = probabilities.argmax(axis=1).astype(np.uint8) + np.uint8(1)
    return np.where(probabilities.max(axis=1) > 0.5, best, np.uint8(0)).astype(np.uint8)


def image_tensor(images: NDArray[Any], device: torch.device) -> Tensor:
    """Return raw ``(case, *space, channel)`` as floats ``(case, channel, *space)`` on a device."""
    return channels_second(on_device(images, device))


def channels_second(images: Tensor) -> Tensor:
    """Return the same as floats ``(case, channel, *space)``; channels stay last in memory."""
    turned = images.permute(0, images.ndim - 1, *range(1, images.ndim - 1))
    return turned.to(torch.get_default_dtype(), memory_format=channels_last(images.ndim - 2))


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device, without waiting for the copy."""
    tensor = torch.from_numpy(array)
    pinned = tensor.pin_memory() if device.type == "cuda" else tensor
    return pinned.to(device, non_blocking=True)


class DeviceStack:
    """Images or masks of all cases for a device: there as a whole if they fit, else by batch."""

    def __init__(self, stack: Any, device: torch.device, room: int) -> None:
        self.stack, self.device = stack, device
        fits = isinstance(stack, np.ndarray) and stack.nbytes <= room
        self._whole = on_device(np.array(stack), device) if fits else None

    def take(self, where: NDArray[np.intp]) -> Tensor:
        """Return the cases at these places on the device."""
        if self._whole is None:
            return on_device(self.stack[where], self.device)
        return self._whole[on_device(where.astype(np.int64), self.device)]


def room_on(device: torch.device) -> int:
    """Return the bytes of a GPU that cases may fill; 0 on a CPU, which has them in its memory."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 0


def channels_last(dimensions: int) -> torch.memory_format:
    """Return the memory format that keeps channels last in two or three dimensions."""
    return torch.channels_last if dimensions == 2 else torch.channels_last_3d
