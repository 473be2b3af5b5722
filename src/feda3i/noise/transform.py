"""Noise models as a dictionary transform, as MONAI's pipelines take them.

With MONAI the class below is one of its transforms (``MapTransform``, ``Randomizable``), so that
``Compose``, ``set_determinism`` and its data loaders treat it as their own. Without MONAI it is a
callable with the same arguments, for any pipeline of functions on dictionaries.

>>> import numpy as np
>>> from feda3i.noise import ContourEvolution
>>> shrink = NoisyMaskd("label", ContourEvolution(mu=-3, sigma=1)).set_random_state(0)
>>> case = {"image": np.zeros((1, 64, 64)), "label": np.zeros((1, 64, 64), np.uint8)}
>>> case["label"][:, 16:48, 16:48] = 1
>>> bool(shrink(case)["label"].sum() < case["label"].sum())
True
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from feda3i import seeding
from feda3i.errors import DataError, RecipeError
from feda3i.noise.model import NoiseModel

Keys = Hashable | Iterable[Hashable]


class OwnState:
    """Hold a random state, as MONAI's ``Randomizable``."""

    R = np.random.RandomState()

    def set_random_state(
        self, seed: int | None = None, state: np.random.RandomState | None = None
    ) -> Self:
        """Start from a seed, take over a state, or start from chance."""
        self.R = np.random.RandomState(seed) if state is None else state
        return self


class OwnMap:
    """Change some entries of a dictionary, as MONAI's ``MapTransform``."""

    def __init__(self, keys: Keys, allow_missing_keys: bool = False) -> None:
        several = isinstance(keys, Iterable) and not isinstance(keys, str)
        self.keys: tuple[Any, ...] = tuple(keys) if several else (keys,)  # type: ignore[arg-type]
        self.allow_missing_keys = allow_missing_keys

    def key_iterator(self, data: Mapping[Hashable, Any]) -> Iterator[Hashable]:
        """Yield the keys that are there; one that is missing is an error unless allowed."""
        for key in self.keys:
            if key in data:
                yield key
            elif not self.allow_missing_keys:
                raise KeyError(f"the data have no entry '{key}', only {', '.join(map(str, data))}")


if TYPE_CHECKING:
    Randomizable = OwnState
    MapTransform = OwnMap
else:
    try:
        from monai.transforms import MapTransform, Randomizable
    except ImportError:
        Randomizable, MapTransform = OwnState, OwnMap


class NoisyMaskd(Randomizable, MapTransform):
    """Replace masks in a dictionary by what another annotator would have drawn.

    Parameters
    ----------
    keys
        Entries that hold masks: arrays or tensors of whole numbers of any type, 0 is background.
    noise
        A noise model, e.g. ``ContourEvolution(mu=-7, sigma=2)``; lengths are in pixels of the mask
        as it is at this place of the pipeline.
    channel_dim
        Dimension of the channels (MONAI's pipelines: 0); each channel is one mask or label map with
        draws of its own. ``None``: masks have no channels.
    case
        Entry that names the case, e.g. ``"id"``. Each case then has one noisy mask in all epochs
        and workers, as a real annotator's, which depends on ``seed`` and this name only. Without it
        every call draws from the random state again: an augmentation.
    seed
        Seed of the masks if ``case`` is given.
    allow_missing_keys
        Whether to pass by keys that are not there.
    """

    def __init__(
        self,
        keys: Keys,
        noise: NoiseModel,
        *,
        channel_dim: int | None = 0,
        case: Hashable | None = None,
        seed: int = 0,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        if not callable(noise):
            raise RecipeError(f"noise: expected a callable (mask, rng), found {noise!r}")
        self.noise, self.channel_dim, self.case, self.seed = noise, channel_dim, case, seed

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the data with noisy masks; the given ones are left alone."""
        changed = dict(data)
        for key in self.key_iterator(data):
            changed[key] = self._disturb(changed[key], self._draws(data, key))
        return changed

    def _draws(self, data: Mapping[Hashable, Any], key: Hashable) -> np.random.Generator:
        if self.case is None:
            return seeding.generator(int(self.R.randint(2**32, dtype=np.uint64)))
        if self.case not in data:
            raise DataError(f"expected the name of the case under '{self.case}', found no such key")
        return seeding.rng(self.seed, "noise", str(key), str(data[self.case]))

    def _disturb(self, mask: Any, rng: np.random.Generator) -> Any:
        if isinstance(mask, np.ndarray):
            return self._each_channel(mask, rng)
        if not hasattr(mask, "detach"):
            raise DataError(f"expected a mask as array or tensor, found {type(mask).__name__}")
        import torch

        noisy = mask.clone()  # keeps device, type and what MONAI's tensors know of their origin
        values = self._each_channel(mask.detach().cpu().numpy(), rng)
        return noisy.copy_(torch.from_numpy(np.ascontiguousarray(values)))

    def _each_channel(self, mask: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        whole = mask if mask.dtype.kind in "biu" else mask.astype(np.int64)
        if not np.array_equal(whole, mask):
            raise DataError("expected a mask of whole numbers, found fractions; use (mask > 0.5)")
        if self.channel_dim is None:
            return np.asarray(self.noise(whole, rng)).astype(mask.dtype)
        channels = np.moveaxis(whole, self.channel_dim, 0)
        noisy = np.stack([self.noise(np.ascontiguousarray(one), rng) for one in channels])
        return np.moveaxis(noisy, 0, self.channel_dim).astype(mask.dtype)
