"""Trees of JSON values and arrays as bytes: for site memory and checkpoints.

The format is a safetensors file: the arrays, and the tree as JSON, in which ``{"__array__": name}``
stands for an array. Nothing is ever unpickled: a malformed or truncated file is an error.
"""

import hashlib
import json
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from feda3i.core.messages import Params
from feda3i.errors import WireError

_MARK, _PARAMS, _TREE = "__array__", "__params__", "tree"


def pack(tree: Any) -> bytes:
    """Return a tree of dicts, lists, JSON values, arrays and ``Params`` as bytes.

    >>> unpack(pack({"q": np.arange(3), "round": 7}))
    {'q': array([0, 1, 2]), 'round': 7}
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    text = json.dumps(_strip(tree, arrays), sort_keys=True)
    return save({**arrays, _TREE: np.frombuffer(text.encode(), np.uint8)})


def unpack(data: bytes) -> Any:
    """Return the tree that ``pack`` was given; raise ``WireError`` for anything malformed."""
    try:
        arrays = load(data)
        return _fill(json.loads(arrays.pop(_TREE).tobytes()), arrays)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as e:
        raise WireError(f"not a feda3i message or file, or a truncated one: {e}") from None


def _strip(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, Params):
        return {_PARAMS: [_strip(value.values, arrays), _strip(value.counts, arrays)]}
    if isinstance(value, np.ndarray):
        name = f"{len(arrays):06d}"
        arrays[name] = np.ascontiguousarray(value)
        return {_MARK: name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _strip(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strip(item, arrays) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise WireError(f"only JSON values and arrays are data, found {type(value).__name__}")


def _fill(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            return arrays[value[_MARK]]
        if _PARAMS in value:
            values, counts = (_fill(item, arrays) for item in value[_PARAMS])
            if values.dtype != np.float32 or counts.dtype != np.int64:
                raise WireError(f"expected float32 and int64, found {values.dtype}, {counts.dtype}")
            return Params(values, counts)
        return {key: _fill(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, arrays) for item in value]
    return value


def seal(data: bytes) -> bytes:
    """Return the data behind its SHA-256, so that a damaged file is noticed."""
    return hashlib.sha256(data).digest() + data


def unseal(data: bytes) -> bytes:
    """Return the data of ``seal``; raise ``WireError`` if it was cut or changed."""
    if len(data) < 32 or hashlib.sha256(data[32:]).digest() != data[:32]:
        raise WireError("the file is truncated or damaged: its SHA-256 does not match its content")
    return data[32:]
