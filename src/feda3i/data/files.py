"""Files written whole or not at all, and hashes of pixels."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PART = ".part-"  # beginning of the names of files that are being written


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it: nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{PART}{os.getpid()}-{path.name}")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def hash_pixels(pixels: NDArray[Any]) -> str:
    """Return the SHA-256 of shape and bytes.

    Pixels rather than files are hashed, because another PNG compressor writes other bytes for the
    same picture.

    >>> hash_pixels(np.zeros((2, 2), np.uint8)) == hash_pixels(np.zeros((4, 1), np.uint8))
    False
    """
    sha = hashlib.sha256(f"{pixels.dtype.str}{pixels.shape}".encode())
    sha.update(np.ascontiguousarray(pixels).data)
    return sha.hexdigest()


def hash_bytes(*parts: bytes) -> str:
    """Return the SHA-256 of one file, or of the digests of several (a case with several masks)."""
    digests = [hashlib.sha256(part).hexdigest() for part in parts]
    return digests[0] if len(digests) == 1 else hash_text(*digests)


def hash_text(*parts: str) -> str:
    """Return the SHA-256 of strings, each ended by a zero byte."""
    return hashlib.sha256("".join(f"{part}\0" for part in parts).encode()).hexdigest()
