"""Differential privacy at the site: clip what leaves it, and add Gaussian noise.

One message (a fit, or the answer to a survey) is one Gaussian mechanism: its parts are clipped to
known ranges, and each part gets noise of ``noise_multiplier * sqrt(parts) * range``, where the
range is how far the part can move if all cases of the site are replaced by any others. So the whole
message has the noise multiplier of the recipe, whatever it consists of.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feda3i.basics.files import make_private, write_file
from feda3i.core.layout import Layout
from feda3i.core.messages import Floats, Numbers, Params, Task, Wire
from feda3i.privacy.rules import digest_of, note_once
from feda3i.seeding import rng

Normal = Callable[[str, int], Floats]
"""Standard normal draws for one part of a message: its name and how many."""
LOSS = (0.0, 10.0)
"""Range of the training loss that every fit sends."""


@dataclass(frozen=True)
class Limits:
    """How a message is clipped and noised (section ``[privacy]`` of a recipe)."""

    clip: float
    clip_statistics: float
    noise_multiplier: float
    send_loss: bool = False


def blocks_of(layout: Layout) -> int:
    """Return the blocks of values in a fit: trained ones, and running statistics if there are any.

    Each is clipped by itself: they have different scales.
    """
    return 1 if layout.trained().all() else 2


def clipped(update: Floats, limit: float) -> Floats:
    """Return an update scaled down to a norm, if it is longer.

    >>> clipped(np.array([3.0, 4.0]), 1.0).round(3).tolist()
    [0.6, 0.8]
    """
    norm = float(np.linalg.norm(update))
    return update * (limit / norm) if norm > limit else update


def release_fit(
    params: Params, base: Params, layout: Layout, limits: Limits, parts: int, normal: Normal
) -> Params:
    """Return the parameters after training with the update clipped and noised.

    ``parts`` counts all parts of the message, also those that are not parameters. Integer buffers
    (numbers of batches) follow from the number of cases, which is no secret here.
    """
    trained = layout.trained()
    noise = limits.noise_multiplier * math.sqrt(parts)
    values = params.values.copy()
    for name, part, limit in (
        ("trained", trained, limits.clip),
        ("statistics", ~trained, limits.clip_statistics),
    ):
        count = int(part.sum())
        if count:
            start = base.values[part].astype(np.float64)
            update = clipped(params.values[part].astype(np.float64) - start, limit)
            values[part] = start + update + 2 * limit * noise * normal(name, count)
    for entry in layout.floats:  # what can be computed from the noised values costs no privacy
        if entry.name.endswith("running_var"):
            part_of = values[entry.start : entry.stop]
            np.maximum(part_of, 0, out=part_of)
    return Params(values, params.counts)


def release_number(value: float, span: tuple[float, float], noise: float, drawn: float) -> float:
    """Return a number within its range, with noise; one that is not there becomes the middle."""
    low, high = span
    inside = (low + high) / 2 if math.isnan(value) else min(max(value, low), high)
    return float(min(max(inside + noise * (high - low) * drawn, low), high))


def release_numbers(
    numbers: Numbers, spans: Mapping[str, tuple[float, float]], parts: int, z: float, normal: Normal
) -> Numbers:
    """Return numbers with noise; ``parts`` counts all entries and parts of the message."""
    noise = z * math.sqrt(parts)
    out: Numbers = {}
    for name, value in numbers.items():
        given = value if isinstance(value, list) else [value]
        drawn = normal(name, len(given))
        noised = [
            release_number(float(one), spans[name], noise, float(extra))
            for one, extra in zip(given, drawn, strict=True)
        ]
        out[name] = noised if isinstance(value, list) else noised[0]
    return out


def _all_as(value: float, numbers: Numbers) -> Numbers:
    return {k: [value] * len(v) if isinstance(v, list) else value for k, v in numbers.items()}


def check_declared(wire: Wire, used: Sequence[str]) -> str:
    """Return why a method's numbers cannot be noised; empty if they can."""
    if wire.networks:
        return "its sites start from further networks, so their updates have no common start"
    lacking = [name for name in (*wire.fit, *used) if not _is_bounded(name, wire)]
    return f"it declares no range for the number '{lacking[0]}' that it sends" if lacking else ""


def _is_bounded(name: str, wire: Wire) -> bool:
    return name in wire.ranges or name.endswith("_cases")


@dataclass(frozen=True)
class Shield:
    """A site's noise, and its memory of what it has sent.

    ``folder`` has the site's own secrets of the run: ``noise.key`` and ``released.json``. With
    ``is_secret``, noise comes from a key that only this site knows; otherwise from the run's seed.
    """

    site: str
    seed: int
    folder: Path
    limits: Limits
    is_secret: bool

    def fit(
        self, round: int, base: Params, params: Params, numbers: Numbers, wire: Wire, layout: Layout
    ) -> tuple[Params, Numbers]:
        """Return what may leave the site after training."""
        self._note(round, "fit", base)
        normal = self._normal(round, "fit")
        parts = blocks_of(layout) + len(wire.fit) + self.limits.send_loss
        spans = {"loss": LOSS, **wire.ranges}
        sent = {k: v for k, v in numbers.items() if k != "loss" or self.limits.send_loss}
        noised = release_numbers(sent, spans, parts, self.limits.noise_multiplier, normal)
        values = release_fit(params, base, layout, self.limits, parts, normal)
        return values, {"loss": 0.0, **noised}

    def survey(
        self,
        round: int,
        base: Params,
        numbers: Numbers,
        used: Sequence[str],
        wire: Wire,
        cases: int,
    ) -> Numbers:
        """Return what may leave the site as the answer to a survey.

        Numbers of cases are not counted but said to be all, which everybody knows; numbers that the
        method does not use stay away.
        """
        self._note(round, "survey", base)
        counts = {name: value for name, value in numbers.items() if name.endswith("_cases")}
        asked = {name: numbers[name] for name in used if name not in counts}
        parts = sum(len(v) if isinstance(v, list) else 1 for v in asked.values())
        normal, z = self._normal(round, "survey"), self.limits.noise_multiplier
        noised = release_numbers(asked, wire.ranges, parts, z, normal)
        return {**_all_as(math.nan, numbers), **_all_as(cases, counts), **noised}

    # -- noise ------------------------------------------------------------------------------------

    def _normal(self, round: int, task: Task) -> Normal:
        if not self.is_secret:
            return lambda part, count: rng(
                self.seed, "privacy", self.site, round, task, part
            ).standard_normal(count)
        key = self._key()
        return lambda part, count: secret_normal(key, f"{round} {task} {part}", count)

    def _key(self) -> bytes:
        path = self.folder / "noise.key"
        if not path.exists():
            make_private(self.folder)
            write_file(path, os.urandom(32), mode=0o600)
        return path.read_bytes()

    def _note(self, round: int, task: Task, base: Params) -> None:
        """Answer one question per round and task: a repeated one gets the same noise again."""
        make_private(self.folder)
        refusal = (
            f"this site has already answered the {task} of round {round} for other parameters; "
            f"another answer would cost privacy that was not agreed on"
        )
        note_once(self.folder / "released.json", f"{round} {task}", digest_of(base), refusal)


def secret_normal(key: bytes, purpose: str, count: int) -> Floats:
    """Return standard normal draws that nobody without the key can foretell.

    53 bits of ChaCha20's stream make a uniform number, the inverse of the normal distribution the
    draw.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from scipy.special import ndtri

    from feda3i.privacy.sealing import stretch

    stream = Cipher(algorithms.ChaCha20(stretch(key, purpose), bytes(16)), None).encryptor()
    bits: NDArray[Any] = np.frombuffer(stream.update(bytes(8 * count)), "<u8") >> np.uint64(11)
    drawn: Floats = ndtri((bits.astype(np.float64) + 0.5) * 2.0**-53)
    return drawn
