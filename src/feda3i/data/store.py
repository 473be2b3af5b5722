"""Where decoded cases go: arrays in memory, or ``.npy`` files that are mapped to memory later."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from feda3i.basics.files import PART

Shapes = dict[str, tuple[int, ...]]


class Store:
    """One array of bytes per kind (images, masks), filled case by case from several processes."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._arrays = {
            # Anonymous memory that forked processes share.
            kind: np.frombuffer(mmap.mmap(-1, max(1, math.prod(shape))), np.uint8)[
                : math.prod(shape)
            ].reshape(shape)
            for kind, shape in shapes.items()
        }

    def put(self, kind: str, place: int, pixels: NDArray[np.uint8]) -> None:
        """Store one case."""
        self._arrays[kind][place] = pixels

    def arrays(self) -> dict[str, NDArray[np.uint8]]:
        """Return the filled arrays."""
        return self._arrays

    def close(self) -> None:
        """Let go of what is no longer needed."""


class FileStore(Store):
    """The same in files with temporary names (``parts``), removed on closing unless renamed.

    Cases are written rather than assigned through a mapping: no page has to be fetched to be
    overwritten, and a full disk is an error when the file is made, not a crash in the middle.
    """

    def __init__(self, shapes: Shapes, place: Path) -> None:
        self.shapes = shapes
        self.parts: dict[str, Path] = {}
        self._files: dict[str, BinaryIO] = {}
        self._starts: dict[str, int] = {}
        self._lock = threading.Lock()
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            for kind, shape in shapes.items():
                path = place.with_name(f"{PART}{os.getpid()}-{place.name}-{kind}.npy")
                self.parts[kind] = path
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
                self._files[kind] = file = os.fdopen(handle, "w+b", buffering=0)
                head = {"descr": "|u1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, head)
                self._starts[kind] = file.tell()
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, file.tell(), max(1, math.prod(shape)))
        except OSError:
            self.close()
            raise

    def put(self, kind: str, place: int, pixels: NDArray[np.uint8]) -> None:
        """Write one case to its place in the file."""
        data = np.ascontiguousarray(pixels).data
        start = self._starts[kind] + place * data.nbytes
        if hasattr(os, "pwrite"):  # several processes share the file, so no position is kept
            os.pwrite(self._files[kind].fileno(), data, start)
            return
        with self._lock:
            self._files[kind].seek(start)
            self._files[kind].write(data)

    def arrays(self) -> dict[str, NDArray[np.uint8]]:
        """Return the files mapped to memory, read-only, once all is on the disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
        return {
            kind: np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
            for kind, path in self.parts.items()
        }

    def close(self) -> None:
        """Close the files and remove those that were not given a name."""
        for file in self._files.values():
            file.close()
        for path in self.parts.values():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
