"""The paper's U-Net: ten stages, bilinear upsampling, 1,082,033 parameters at three channels."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from feda3i.errors import RecipeError, check_choice

_CONV: dict[int, type[nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
_BATCH: dict[int, type[nn.Module]] = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_INSTANCE: dict[int, type[nn.Module]] = {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
_POOL: dict[int, type[nn.Module]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
_LINEAR = {2: "bilinear", 3: "trilinear"}
NORMS = ("batch", "group", "instance")
GROUPS = 8  # of channels in GroupNorm, or as many of them as divide a layer's channels
INPUTS = ("normalised", "paper")


def normalised(module: nn.Module, input: str = "normalised") -> nn.Module:
    """Return the same module, which from now on maps images of 0..255 to about -2..2 first.

    A hook does it, which leaves state-dict keys and stages as they are. With ``input="paper"``
    images stay raw as in the paper, and BatchNorm has to absorb the scale.

    >>> list(normalised(nn.Conv2d(1, 1, 1)).state_dict())
    ['weight', 'bias']
    """
    check_choice("model input", input, INPUTS)
    if input == "normalised":
        module.register_forward_pre_hook(_scale_first)
    return module


def _scale_first(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return ((args[0] - 128.0) / 64.0, *args[1:])


class Block(nn.Sequential):
    """Twice (convolution of three, normalisation, ReLU)."""

    def __init__(
        self, enter: int, middle: int, leave: int, dimensions: int, norm: str, momentum: float
    ) -> None:
        steps: list[nn.Module] = []
        for before, after in ((enter, middle), (middle, leave)):
            steps.append(_CONV[dimensions](before, after, 3, padding=1))
            if norm == "group":
                steps.append(nn.GroupNorm(math.gcd(GROUPS, after), after))
            elif norm == "instance":
                steps.append(_INSTANCE[dimensions](after, affine=True))
            else:
                steps.append(_BATCH[dimensions](after, momentum=momentum))
            steps.append(nn.ReLU(inplace=True))
        super().__init__(*steps)


class Up(nn.Module):
    """Double the size, put the skip in front, and reduce."""

    def __init__(self, enter: int, leave: int, dimensions: int, *form: Any) -> None:
        super().__init__()
        self.mode = _LINEAR[dimensions]
        self.block = Block(enter, enter // 2, leave, dimensions, *form)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Return features of the skip's size in space."""
        x = F.interpolate(x, scale_factor=2, mode=self.mode, align_corners=True)
        if x.shape[2:] != skip.shape[2:]:  # odd sizes: pooling dropped the last row
            missing = [s - have for s, have in zip(skip.shape[2:], x.shape[2:], strict=True)]
            x = F.pad(x, [n for gap in reversed(missing) for n in (gap // 2, gap - gap // 2)])
        out: Tensor = self.block(torch.cat([skip, x], dim=1))
        return out


class UNet(nn.Module):
    """Segment images of 0..255 of at least 16 per side; every stage of Eq. 7 is one child.

    Parameters
    ----------
    channels, classes, dimensions
        Channels of an image, foreground classes (one logit each), dimensions in space.
    width
        Feature maps of the first stage; all others scale with it. The paper uses 16.
    momentum
        Of BatchNorm's running statistics. The paper uses 0.1; 0.3 follows faster when a round has
        few steps.
    input
        ``"normalised"`` computes (x - 128) / 64 first, ``"paper"`` feeds raw intensities.
    norm
        ``"batch"``: BatchNorm, as in the paper. ``"group"`` (8 groups) and ``"instance"``:
        GroupNorm and InstanceNorm look at one case at a time and keep no running statistics.

    >>> net = UNet(channels=3)
    >>> sum(p.numel() for p in net.parameters())
    1082033
    >>> net(torch.zeros(2, 3, 48, 33)).shape
    torch.Size([2, 1, 48, 33])
    """

    stages: ClassVar[tuple[str, ...]] = (
        *("inc", "down1", "down2", "down3", "down4"),
        *("up1", "up2", "up3", "up4", "outc"),
    )

    def __init__(
        self,
        channels: int = 3,
        classes: int = 1,
        width: int = 16,
        momentum: float = 0.1,
        input: str = "normalised",
        dimensions: int = 2,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        for name, value in (("channels", channels), ("classes", classes), ("width", width)):
            if not isinstance(value, int) or value < 1:
                raise RecipeError(f"unet {name}: expected a whole number from 1, found {value!r}")
        if not isinstance(momentum, int | float) or not 0.0 < momentum <= 1.0:
            raise RecipeError(f"unet momentum: expected a number in (0, 1], found {momentum!r}")
        if dimensions not in _CONV:
            raise RecipeError(f"unet dimensions: expected 2 or 3, found {dimensions!r}")
        check_choice("unet norm", norm, NORMS)
        w, form = width, (dimensions, norm, momentum)
        self.pool = _POOL[dimensions](2)
        self.inc = Block(channels, w, w, *form)
        self.down1 = Block(w, 2 * w, 2 * w, *form)
        self.down2 = Block(2 * w, 4 * w, 4 * w, *form)
        self.down3 = Block(4 * w, 8 * w, 8 * w, *form)
        self.down4 = Block(8 * w, 8 * w, 8 * w, *form)
        self.up1 = Up(16 * w, 4 * w, *form)
        self.up2 = Up(8 * w, 2 * w, *form)
        self.up3 = Up(4 * w, w, *form)
        self.up4 = Up(2 * w, w, *form)
        self.outc = _CONV[dimensions](w, classes, 1)
        self._rates: Sequence[float] = (0.0,) * 5
        self._generator: torch.Generator | None = None
        normalised(self, input)

    @staticmethod
    def footprint(shape: Sequence[int], cases: int = 0, width: int = 16) -> float:
        """Return about how many bytes a pass needs, or a training step on so many cases.

        Measured: 5 width numbers per pixel at the peak of a pass and 20 width that training keeps;
        gradients and Adam take three more copies of the parameters.
        """
        parameters = (4_230 if len(shape) == 2 else 12_660) * width**2
        values = (20 * cases or 5) * width * math.prod(shape)
        return 4.0 * (parameters * (4 if cases else 1) + values)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(case, class, *space)`` of images ``(case, channel, *space)``."""
        x0 = self._drop(0, self.inc(images))
        x1 = self._drop(1, self.down1(self.pool(x0)))
        x2 = self._drop(2, self.down2(self.pool(x1)))
        x3 = self._drop(3, self.down3(self.pool(x2)))
        x = self._drop(4, self.down4(self.pool(x3)))
        x = self.up2(self.up1(x, x3), x2)
        x = self.up4(self.up3(x, x1), x0)
        logits: Tensor = self.outc(x)
        return logits

    def _drop(self, level: int, x: Tensor) -> Tensor:
        """Return features with single values dropped at the current rate, the rest scaled up."""
        rate = self._rates[level]
        if rate == 0.0 or not self.training:
            return x
        keep = torch.empty_like(x).bernoulli_(1.0 - rate, generator=self._generator)
        return x * keep.div_(1.0 - rate)

    @contextmanager
    def encoder_dropout(
        self, rates: Sequence[float], generator: torch.Generator | None = None
    ) -> Iterator[None]:
        """Drop single features after inc, down1 .. down4 within this context (training mode only).

        The five rates are in [0, 1). Without a generator, draws come from torch's global one.
        """
        if len(rates) != 5 or not all(0.0 <= rate < 1.0 for rate in rates):
            raise RecipeError(f"encoder dropout: expected five rates in [0, 1), found {rates}")
        before = self._rates, self._generator
        self._rates, self._generator = rates, generator
        try:
            yield
        finally:
            self._rates, self._generator = before
