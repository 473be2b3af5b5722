"""What worker processes share: the federation, its arrays mapped to memory, and the devices."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.core.cases import Federation

_SMALL = 1 << 16  # bytes of an array that is worth no file of its own


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


class _Pickler(pickle.Pickler):
    """A pickler that hands every array to the buffers, mapped ones and parts of others, too."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return np.ascontiguousarray(value).__reduce_ex__(5)
        return NotImplemented


def share(federation: Federation, folder: Path) -> tuple[bytes, list[Path]]:
    """Write a federation's arrays to files for worker processes; return how they open it."""
    files: list[Path] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        """Write a large array; return whether it is small and stays in the pickle."""
        raw = buffer.raw()
        if raw.nbytes < _SMALL:
            return True
        files.append((folder / f"array-{len(files)}.bin").absolute())
        files[-1].write_bytes(raw)
        return False

    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=keep).dump(replace(federation, notes={}))
    return stream.getvalue(), files


def open_shared(data: bytes, files: list[Path]) -> Federation:
    """Return the federation that ``share`` wrote; its large arrays are mapped to memory."""
    federation: Federation = pickle.loads(data, buffers=[np.memmap(f, mode="r") for f in files])
    return federation
