"""Scale images of 0..255 before a network sees them, leaving the names of its tensors alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from feda3i.errors import check_choice

INPUTS = ("normalised", "paper")


class InputScale(nn.Module):
    """Map images of 0..255 to about -2..2 (``"normalised"``) or leave them (``"paper"``).

    The paper trains on raw intensities and lets BatchNorm absorb the scale; on few steps per round
    that costs many rounds (Dice .00 against .40 after the first).
    """

    def __init__(self, input: str = "normalised") -> None:
        super().__init__()
        check_choice("model input", input, INPUTS)
        self.input = input

    def forward(self, images: Tensor) -> Tensor:
        """Return the scaled images, ``(case, channel, *space)`` as given."""
        return images if self.input == "paper" else (images - 128.0) / 64.0

    def extra_repr(self) -> str:
        """Say which scaling is in use when the model is printed."""
        return self.input


def _scale_first(scale: InputScale, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (scale(args[0]), *args[1:])


def normalised(module: nn.Module, input: str = "normalised") -> nn.Module:
    """Return the same module, which from now on scales its input itself.

    A hook does it, not a wrapping module: state-dict keys, attributes and the stages of the network
    stay exactly as its author named them.

    >>> list(normalised(nn.Conv2d(1, 1, 1)).state_dict())
    ['weight', 'bias']
    """
    scale = InputScale(input)
    if input != "paper":
        # No closure, so that a model with it can be copied.
        module.register_forward_pre_hook(partial(_scale_first, scale))
    return module
