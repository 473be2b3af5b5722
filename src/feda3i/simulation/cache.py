"""Noisy masks on disk: drawn once, the same bytes for every method of a comparison."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.core.ragged import Ragged, Stack, hash_into
from feda3i.errors import RunError
from feda3i.files import write_file
from feda3i.noise.model import Annotator
from feda3i.noise.noisy_masks import NoisyCase, NoisyMasks, Sites, apply_noise

FORMAT = 2  # raised when a noise model draws differently: old files are then not used


def noise_key(
    masks: Stack, ids: Sequence[str], sites: Sites, annotators: Mapping[str, Annotator], **how: Any
) -> str:
    """Return the SHA-256 of everything the noisy masks depend on; ``how`` is for apply_noise."""
    facts = {
        **how,
        "format": FORMAT,
        "annotators": {site: asdict(annotators[site]) for site in sorted(sites)},
        "sites": {site: [ids[i] for i in sites[site]] for site in sorted(sites)},
    }
    sha = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_plain).encode())
    hash_into(sha, masks)
    return sha.hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)


def cached_noise(
    folder: Path | None,
    masks: Stack,
    ids: Sequence[str],
    sites: Sites,
    annotators: Mapping[str, Annotator],
    **how: Any,
) -> NoisyMasks:
    """Return ``apply_noise(...)``, read from ``folder/noise-KEY.npz`` if it was drawn before.

    Without a folder it is drawn each time. The file is checked against the hash written with it; a
    damaged one is an error rather than silently drawn again, because results that were made with
    it are then in doubt.
    """
    if folder is None:
        return apply_noise(masks, ids, sites, annotators, **how)
    key = noise_key(masks, ids, sites, annotators, **how)
    path = folder / f"noise-{key[:16]}.npz"
    if path.is_file():
        return _read(path, key)
    drawn = apply_noise(masks, ids, sites, annotators, **how)
    note = {"key": key, "sha256": drawn.digest(), "table": [asdict(row) for row in drawn.table]}
    packed = io.BytesIO()
    arrays = {"masks": drawn.masks}
    if isinstance(drawn.masks, Ragged):
        arrays = {"masks": drawn.masks.flat, "shapes": drawn.masks.shapes}
    np.savez_compressed(packed, **arrays, note=np.array(json.dumps(note)))
    folder.mkdir(parents=True, exist_ok=True)
    write_file(path, packed.getvalue(), durable=False)
    return drawn


def _read(path: Path, key: str) -> NoisyMasks:
    try:
        with np.load(path, allow_pickle=False) as stored:
            note = json.loads(str(stored["note"]))
            table = tuple(NoisyCase(**row) for row in note["table"])
            masks = stored["masks"]
            if "shapes" in stored:
                masks = Ragged(masks, stored["shapes"])
            found = NoisyMasks(masks, table)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        raise RunError(f"'{path}' cannot be read: delete it to draw the noise again") from None
    if note["key"] != key or note["sha256"] != found.digest():
        raise RunError(
            f"'{path}' does not match its hash: delete it to draw the noise again, and "
            "do not trust results that were made with it"
        )
    return found
