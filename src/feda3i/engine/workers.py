"""What worker processes share: the federation, its arrays mapped to memory, and the devices."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Federation
from feda3i.core.ragged import Ragged

_SMALL = 1 << 16  # bytes of an array that needs no file of its own


def devices_of(wanted: str, gpus: int | None = None) -> list[str]:
    """Return the devices that workers take in turn, of ``engine.device`` and the number of GPUs.

    >>> devices_of("auto", 2), devices_of("cuda:1", 2), devices_of("auto", 0)
    (['cuda:0', 'cuda:1'], ['cuda:1'], ['cpu'])
    """
    if gpus is None:
        import torch

        gpus = torch.cuda.device_count()
    if wanted == "cpu" or gpus == 0:
        return ["cpu"]
    return [f"cuda:{k}" for k in range(gpus)] if wanted in ("auto", "cuda") else [wanted]


class _InFile(np.memmap[Any, Any]):
    """An array in a file: another process maps the file instead of getting a copy."""

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return _open, (self.filename,)


def _open(file: str) -> NDArray[Any]:
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def shared(federation: Federation, folder: Path) -> Federation:
    """Return a federation that is cheap to send to processes: its pixels lie in files for all."""

    def put(stack: Any) -> Any:
        if isinstance(stack, Ragged):
            return Ragged(put(stack.flat), stack.shapes, stack.starts)
        if stack is None or stack.nbytes < _SMALL:
            return stack
        handle, name = tempfile.mkstemp(".npy", dir=folder.absolute())
        with open(handle, "wb") as file:
            np.save(file, stack, allow_pickle=False)
        return np.load(name, mmap_mode="r", allow_pickle=False).view(_InFile)

    train, test = (
        replace(cases, images=put(cases.images), masks=put(cases.masks))
        for cases in (federation.train, federation.test)
    )
    clean = put(federation.clean_masks)
    return replace(federation, train=train, test=test, clean_masks=clean, notes={})
