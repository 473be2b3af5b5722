"""Where each tensor of a network is in the flat vectors, and which stage it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from feda3i.core.messages import Params
from feda3i.errors import DivergedError, RecipeError, WireError

if TYPE_CHECKING:
    from torch import Tensor, nn

NOT_FINITE = "the parameters hold NaN or infinite values"


@dataclass(frozen=True)
class Stage:
    """A name and the state-dict keys that belong to it."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One tensor of the state: its name, shape, place in its vector, stage; trained or a buffer."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    stage: int
    is_integer: bool
    is_trained: bool


@dataclass(frozen=True)
class Layout:
    """The entries of a network's state in order of the state dict.

    ``dtype`` is that of the values: float32, or torch's default where a caller changed it.
    """

    entries: tuple[Entry, ...]
    stages: tuple[str, ...]
    dtype: str = "float32"

    @classmethod
    def of(cls, network: nn.Module, stages: Sequence[Stage]) -> Layout:
        """Lay out a network whose stages are known (``feda3i.models.stages.find_stages``)."""
        import torch

        dtype = torch.get_default_dtype()
        kind = str(dtype).removeprefix("torch.")
        number = {key: j for j, stage in enumerate(stages) for key in stage.keys}
        trained = {name for name, _ in network.named_parameters()}
        ends = {False: 0, True: 0}
        entries = []
        for name, tensor in network.state_dict().items():
            is_integer = not tensor.is_floating_point()
            if tensor.dtype not in (dtype, torch.int64):
                found = f"{name}: {tensor.dtype}"
                raise RecipeError(f"expected network tensors of {kind} or int64, found {found}")
            start, stop = ends[is_integer], ends[is_integer] + tensor.numel()
            ends[is_integer] = stop
            place = (tuple(tensor.shape), start, stop, number[name])
            entries.append(Entry(name, *place, is_integer, name in trained))
        return cls(tuple(entries), tuple(stage.name for stage in stages), kind)

    @property
    def floats(self) -> tuple[Entry, ...]:
        """Return the floating-point entries in order."""
        return tuple(entry for entry in self.entries if not entry.is_integer)

    @property
    def size(self) -> int:
        """Return the length of the vector of values."""
        return max((entry.stop for entry in self.floats), default=0)

    @property
    def integers(self) -> int:
        """Return the length of the vector of counts."""
        return max((entry.stop for entry in self.entries if entry.is_integer), default=0)

    def spans(self) -> list[tuple[int, int, int]]:
        """Return runs of values that belong to one stage as ``(start, stop, stage)``."""
        runs: list[tuple[int, int, int]] = []
        for entry in self.floats:
            if runs and runs[-1][2] == entry.stage and runs[-1][1] == entry.start:
                runs[-1] = (runs[-1][0], entry.stop, entry.stage)
            else:
                runs.append((entry.start, entry.stop, entry.stage))
        return runs

    def trained(self) -> NDArray[np.bool_]:
        """Return a mask over the values: True for trained parameters, False for buffers."""
        mask = np.zeros(self.size, dtype=bool)
        for entry in self.floats:
            mask[entry.start : entry.stop] = entry.is_trained
        return mask

    def read(self, network: nn.Module) -> Params:
        """Return a copy of the network's state as flat vectors."""
        params = Params(np.empty(self.size, self.dtype), np.empty(self.integers, np.int64))
        state = network.state_dict()
        for entry in self.entries:
            vector = params.counts if entry.is_integer else params.values
            vector[entry.start : entry.stop] = state[entry.name].detach().cpu().numpy().reshape(-1)
        return params

    def write(self, params: Params, network: nn.Module) -> None:
        """Copy flat vectors, which were checked when they came, into the network."""
        state = network.state_dict()  # detached: copying leaves no gradient
        for name, tensor in self.tensors(params).items():
            state[name].copy_(tensor)

    def tensors(self, params: Params) -> dict[str, Tensor]:
        """Return named tensors (copies) of the flat vectors, in order of the state dict."""
        import torch

        named = {}
        for entry in self.entries:
            part = (params.counts if entry.is_integer else params.values)[entry.start : entry.stop]
            named[entry.name] = torch.from_numpy(part.copy().reshape(entry.shape))
        return named

    def check(self, params: Params) -> None:
        """Raise ``WireError`` unless the vectors fit this network and are finite."""
        self._check_shapes(params)
        if not np.isfinite(params.values.sum(dtype=np.float64)):
            raise WireError(NOT_FINITE)

    def _check_shapes(self, params: Params) -> None:
        found, expected = (
            (params.values.shape, params.counts.shape),
            ((self.size,), (self.integers,)),
        )
        if found != expected:
            raise WireError(f"expected parameters of shape {expected}, found {found}")

    def check_limits(self, params: Params, value: float, buffer: float, count: int) -> None:
        """Raise ``WireError`` unless the vectors fit and may be averaged, in one pass over them.

        Trained values, buffers and integer buffers have limits; no variance is negative.
        """
        self._check_shapes(params)
        if np.any(params.counts > count) or np.any(params.counts < -count):
            raise WireError(f"expected integer buffers between -{count} and {count}")
        for entry in self.floats:
            part = params.values[entry.start : entry.stop]
            most = value if entry.is_trained else buffer
            low, high = float(part.min(initial=0.0)), float(part.max(initial=0.0))
            if not np.isfinite(high - low):  # NaN is both the least and the largest value
                raise DivergedError(NOT_FINITE)
            if max(-low, high) > most:
                text = f"expected values of at most {most:g}, found {max(-low, high):.3g}"
                raise DivergedError(f"{text} in '{entry.name}'")
            if low < 0 and not entry.is_trained and entry.name.endswith("running_var"):
                raise WireError(f"expected variances of at least 0 in '{entry.name}'")

    def digest(self) -> str:
        """Return a short hash that two sides compare before they exchange parameters."""
        text = ";".join(f"{e.name}:{e.shape}:{e.is_integer}:{e.stage}" for e in self.entries)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
