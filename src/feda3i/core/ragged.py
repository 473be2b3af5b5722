"""Arrays of cases whose sizes differ: one flat buffer, not padded, that may be mapped to memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]


class Ragged:
    """Cases of different shapes, read like an array with the case as its first axis.

    ``ragged[3]`` is a view, ``ragged[2:5]`` and ``ragged[index]`` are ragged again and share the
    buffer. ``flat`` holds the values of all cases in one dimension, ``shapes`` are
    ``(case, dimension)``, and ``starts`` say where cases begin, by default one after the other.

    >>> both = Ragged.of([np.ones((2, 3)), np.zeros((4, 1))])
    >>> [one.shape for one in both]
    [(2, 3), (4, 1)]
    """

    def __init__(
        self, flat: NDArray[Any], shapes: NDArray[np.int64], starts: NDArray[np.int64] | None = None
    ) -> None:
        self.flat = flat
        self.shapes = np.asarray(shapes, np.int64)
        sizes = self.shapes.prod(axis=1)
        self.starts = np.cumsum(sizes) - sizes if starts is None else np.asarray(starts, np.int64)

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> Ragged:
        """Return copies of some arrays as one."""
        flat = np.concatenate([one.reshape(-1) for one in arrays])
        return cls(flat, np.array([one.shape for one in arrays], np.int64))

    def __len__(self) -> int:
        return len(self.shapes)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[k] for k in range(len(self)))

    @overload
    def __getitem__(self, where: int | np.integer[Any]) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, where: slice | Index | list[int]) -> Ragged: ...

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, int | np.integer):
            shape, start = tuple(self.shapes[where].tolist()), int(self.starts[where])
            return self.flat[start : start + int(np.prod(shape))].reshape(shape)
        return Ragged(self.flat, self.shapes[where], self.starts[where])

    def __setitem__(self, where: int, values: NDArray[Any]) -> None:
        self[where][...] = values

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of the values."""
        return self.flat.dtype

    @property
    def ndim(self) -> int:
        """Return the number of dimensions, that of the cases included."""
        return 1 + int(self.shapes.shape[1])

    def copy(self) -> Ragged:
        """Return the same cases in a buffer of their own."""
        return Ragged.of(list(self))


Stack = NDArray[Any] | Ragged  # cases of one shape, (case, ...), or of several


def stacked(arrays: Sequence[NDArray[Any]]) -> Stack:
    """Return arrays as one: an array if they have one shape, else ragged."""
    return np.stack(arrays) if len({one.shape for one in arrays}) == 1 else Ragged.of(arrays)


def zeros_like(stack: Stack) -> Stack:
    """Return zero bytes of the shapes of a stack."""
    if isinstance(stack, Ragged):
        return Ragged(np.zeros(int(stack.shapes.prod(axis=1).sum()), np.uint8), stack.shapes)
    return np.zeros(stack.shape, np.uint8)


def hash_into(sha: hashlib._Hash, stack: Stack) -> None:
    """Add a stack to a hash, case by case: a memory-mapped set is never read whole."""
    shape = stack.shapes.tolist() if isinstance(stack, Ragged) else stack.shape
    sha.update(f"{stack.dtype}{shape}".encode())
    for case in stack:
        sha.update(np.ascontiguousarray(case).data)
