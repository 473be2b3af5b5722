"""What worker processes share: cases as memory-mapped files, and the devices they train on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.core.cases import Cases, Federation
from feda3i.core.ragged import Ragged, Stack


def devices_of(wanted: str, gpus: int) -> list[str]:
    """Return the devices that workers take in turn, of ``engine.device`` and the number of GPUs.

    >>> devices_of("auto", 2), devices_of("cuda:1", 2), devices_of("auto", 0)
    (['cuda:0', 'cuda:1'], ['cuda:1'], ['cpu'])
    """
    if wanted == "cpu" or gpus == 0:
        return ["cpu"]
    return [f"cuda:{k}" for k in range(gpus)] if wanted in ("auto", "cuda") else [wanted]


@dataclass(frozen=True)
class OnDisk:
    """Where a stack of arrays lies, so that another process can open it without a copy."""

    path: Path
    start: int
    stop: int
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Shapes and starts of the cases, if they have sizes of their own."""

    def open(self) -> Stack:
        """Return the stack, mapped to memory."""
        whole: NDArray[Any] = np.load(self.path, mmap_mode="r", allow_pickle=False)
        part = whole[self.start : self.stop]
        return part if self.sizes is None else Ragged(part, *self.sizes)


def share(federation: Federation, folder: Path) -> dict[str, Any]:
    """Return a federation as fields with ``OnDisk`` for pixels; every case exists once."""
    fields: dict[str, Any] = {**vars(federation), "notes": {}}
    for split in ("train", "test"):
        cases = fields[split]
        fields[split] = {
            **vars(cases),
            "images": _on_disk(cases.images, folder / f"{split}-images.npy"),
            "masks": _on_disk(cases.masks, folder / f"{split}-masks.npy"),
        }
    clean = federation.clean_masks
    same = clean is None or clean is federation.train.masks
    fields["clean_masks"] = None if same else _on_disk(clean, folder / "train-clean.npy")
    return fields


def open_shared(fields: dict[str, Any]) -> Federation:
    """Return the federation that ``share`` described."""
    opened = {name: _opened(value) for name, value in fields.items()}
    for split in ("train", "test"):
        opened[split] = Cases(**{k: _opened(value) for k, value in fields[split].items()})
    return Federation(**opened)


def _opened(value: Any) -> Any:
    return value.open() if isinstance(value, OnDisk) else value


def _on_disk(array: Stack, path: Path) -> OnDisk:
    """Return where an array lies on disk; write it there first unless it is a mapped file."""
    if isinstance(array, Ragged):
        flat = _on_disk(array.flat, path)
        return OnDisk(flat.path, flat.start, flat.stop, (array.shapes, array.starts))
    root: Any = array
    while isinstance(root.base, np.memmap):
        root = root.base
    is_file = isinstance(root, np.memmap) and str(root.filename).endswith(".npy")
    if is_file and array.flags.c_contiguous and array.shape[1:] == root.shape[1:]:
        start = (array.ctypes.data - root.ctypes.data) // array.strides[0]
        return OnDisk(Path(root.filename).absolute(), start, start + len(array))
    temporary = path.with_suffix(".tmp.npy")
    np.save(temporary, array)
    os.replace(temporary, path)
    return OnDisk(path.absolute(), 0, len(array))
