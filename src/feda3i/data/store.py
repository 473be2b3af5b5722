"""Where decoded cases go: arrays in memory, or ``.npy`` files that are mapped to memory later."""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from feda3i.files import PART


@dataclass(frozen=True)
class Form:
    """What is stored of one kind: the size of every case and the type of the values."""

    cases: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the array's shape: ``(case, ...)``, or flat where sizes differ."""
        if len(set(self.cases)) == 1:
            return (len(self.cases), *self.cases[0])
        return (sum(math.prod(case) for case in self.cases),)

    @cached_property
    def starts(self) -> list[int]:
        """Return where each case begins, in values."""
        sizes = [math.prod(case) for case in self.cases]
        return [0, *itertools.accumulate(sizes)][:-1]

    @property
    def nbytes(self) -> int:
        """Return the bytes that all cases take."""
        return math.prod(self.shape) * self.dtype.itemsize


Forms = dict[str, Form]


class Store:
    """One array per kind (images, masks), filled case by case from several processes."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self._arrays = {
            # Anonymous memory that forked processes share.
            kind: np.frombuffer(mmap.mmap(-1, max(1, form.nbytes)), np.uint8)[: form.nbytes].view(
                form.dtype
            )
            for kind, form in forms.items()
        }

    def put(self, kind: str, place: int, pixels: NDArray[Any]) -> None:
        """Store one case."""
        start = self.forms[kind].starts[place]
        self._arrays[kind][start : start + pixels.size] = pixels.reshape(-1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the filled arrays, in the shape of their form."""
        return {kind: flat.reshape(self.forms[kind].shape) for kind, flat in self._arrays.items()}

    def close(self) -> None:
        """Let go of what is no longer needed."""


class FileStore(Store):
    """The same in files with temporary names (``parts``), removed on closing unless renamed.

    Cases are written rather than assigned through a mapping: no page has to be fetched to be
    overwritten, and a full disk is an error when the file is made, not a crash in the middle.
    """

    def __init__(self, forms: Forms, place: Path) -> None:
        self.forms = forms
        self.parts: dict[str, Path] = {}
        self._files: dict[str, BinaryIO] = {}
        self._starts: dict[str, int] = {}
        self._lock = threading.Lock()
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            for kind, form in forms.items():
                path = place.with_name(f"{PART}{os.getpid()}-{place.name}-{kind}.npy")
                self.parts[kind] = path
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
                self._files[kind] = file = os.fdopen(handle, "w+b", buffering=0)
                head = {"descr": form.dtype.str, "fortran_order": False, "shape": form.shape}
                np.lib.format.write_array_header_1_0(file, head)
                self._starts[kind] = file.tell()
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(handle, file.tell(), max(1, form.nbytes))
        except OSError:
            self.close()
            raise

    def put(self, kind: str, place: int, pixels: NDArray[Any]) -> None:
        """Write one case to its place in the file."""
        form = self.forms[kind]
        data = np.ascontiguousarray(pixels, form.dtype).data
        start = self._starts[kind] + form.starts[place] * form.dtype.itemsize
        if hasattr(os, "pwrite"):  # several processes share the file, so no position is kept
            os.pwrite(self._files[kind].fileno(), data, start)
            return
        with self._lock:
            self._files[kind].seek(start)
            self._files[kind].write(data)

    def arrays(self) -> dict[str, NDArray[Any]]:
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
