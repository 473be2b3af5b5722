"""The manifest: what identifies a run (versions, hashes, machine), and what of it changed since."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from feda3i import __version__
from feda3i.core.cases import Federation
from feda3i.engine.events import Record, mistake_of
from feda3i.engine.job import Job
from feda3i.errors import RecipeError, RunError, shown
from feda3i.recipe import Recipe
from feda3i.recipe.sections import CHANGES_NUMBERS, engine_changes
from feda3i.recipe.trust import named_code
from feda3i.seeding import rng
from feda3i.values import check_plain, flat_items

FORMAT = 1
OLD = "0.1."
"""Versions whose folders this one does not read: their recipes have keys that are gone."""
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "opencv-python-headless", "safetensors")
COMPARED = ("sha256", "test_sha256", "sites_sha256", "cases", "test", "sites", "classes")
"""What must not change in the data before a run is resumed."""


class _Data(Record):
    """What a manifest says of the data; over the network only sites know theirs."""

    sha256: str = ""
    test_sha256: str = ""
    sites_sha256: str = ""
    cases: int = 0
    test: int = 0
    sites: dict[str, int] = Field({})
    classes: list[str] = Field([])
    notes: dict[str, Any] = Field({})


class _Manifest(Record):
    feda3i: str
    created: str
    recipe_sha256: str
    machine: str
    packages: dict[str, str]
    processor: dict[str, str]
    data: _Data
    code: dict[str, dict[str, str]] = Field({})
    start: dict[str, Any] = Field({})
    branched: int = 0
    run: str = ""
    events_sha256: str = ""


def check_manifest(content: Any, path: Path) -> dict[str, Any]:
    """Return the content of a ``manifest.json`` that this version can read."""
    found = content if isinstance(content, dict) else {}
    version = shown(found.get("feda3i", "of unknown version"), 40).strip("'")
    if found and (found.get("format") != FORMAT or version.startswith(OLD)):
        raise RunError(
            f"'{path.parent}' was written by feda3i {version}; this is {__version__}, which cannot "
            f"read it. Use that version, or repeat the run"
        )
    try:
        check_plain(content)
        _Manifest.model_validate(content)
        if found.get("engine") != "flower":
            lacking = [key for key in _Data.model_fields if key not in found["data"]]
            if lacking:
                raise RecipeError(f"data.{lacking[0]}: missing")
    except (ValidationError, RecipeError) as error:
        raise RunError(f"'{path}' is damaged: {mistake_of(error)}") from None
    return found


def manifest_of(recipe: Recipe, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a run: versions, seeds, hashes, machine."""
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "recipe_sha256": recipe.digest(),
        "seed": recipe.seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "code": {c.section: {"name": c.name, "sha256": c.sha256()} for c in named_code(recipe)},
        **_versions(),
        "processor": dict(processor()),
        **facts,
    }


def _versions() -> dict[str, Any]:
    return {
        "feda3i": __version__,
        "python": platform.python_version(),
        "packages": {package: version_of(package) for package in PACKAGES},
    }


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@cache
def processor() -> Mapping[str, str]:
    """Return the processor's name, the instructions torch uses, and oneDNN's limit if one is set.

    Rounding depends on them: the same run on another kind of processor differs in last digits.
    """
    import torch

    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "none"
    return {
        "name": _processor_name(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "onednn_limit": limit,
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def start_of(job: Job, federation: Federation) -> dict[str, str]:
    """Return hashes of the first network's initial weights and of the order that cases come in.

    The order is that of ``Site.batches`` in the first and in the last round, every epoch, for the
    sites as they are before a reference row pools them.
    """
    recipe = job.recipe
    weights, order = hashlib.sha256(), hashlib.sha256(f"{recipe.train.batch}".encode())
    for name, tensor in job.plain_network(0).state_dict().items():
        weights.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        weights.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    for site in federation.names():
        count = len(federation.sites[site])
        for number in sorted({1, recipe.rounds}):
            for epoch in range(recipe.train.epochs):
                drawn = rng(recipe.seed, "batches", epoch, site, number).permutation(count)
                order.update(drawn.astype("<i8").tobytes())
    return {"weights_sha256": weights.hexdigest(), "order_sha256": order.hexdigest()}


# -- what changed ---------------------------------------------------------------------------------


def moved(manifest: Mapping[str, Any]) -> list[str]:
    """Return one line each for versions and processor that are not those of the run's start."""
    now = _versions()
    named = {key: now[key] for key in ("feda3i", "python")}
    before = {**manifest["packages"], **{key: manifest.get(key, now[key]) for key in named}}
    lines = []
    if versions := _changes(before, {**named, **now["packages"]}):
        lines.append(
            f"other versions than at the start of this run ({versions}): results may differ "
            f"from here on in their last digits or more"
        )
    if parts := _changes(manifest["processor"], processor()):
        lines.append(
            f"another kind of processor than at the start of this run ({parts}): the "
            f"rest will not repeat it to the bit"
        )
    return lines


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    return _join(_change(key, then.get(key, value), value) for key, value in now.items())


def _change(name: str, then: object, now: object) -> str:
    return "" if then == now else f"{name} {then}, now {now}"


def _join(changes: Iterable[str]) -> str:
    return "; ".join(change for change in changes if change)


def check_recipe_kept(
    manifest: Mapping[str, Any], recipe: Recipe, path: Path, start: Mapping[str, Any] | None
) -> None:
    """Raise ``RunError`` if the recipe is not that of the start; ``engine.*`` may be another.

    ``start`` is the recipe as the event log has it, to say what was changed.
    """
    then, now = manifest["recipe_sha256"], recipe.digest()
    if then == now:
        return
    changes = _join(_differences(start, recipe.shared())) if start else ""
    engine = ", ".join(
        f"engine.{k}" for k in type(recipe.engine).model_fields if k not in CHANGES_NUMBERS
    )
    raise RunError(
        f"'{path}/recipe.toml' is not the recipe that this run was started with (SHA-256 "
        f"{then[:12]} then, {now[:12]} now){': ' if changes else ''}{changes}. Undo the change "
        f"(only {engine} may change), or start another run: feda3i run {path}/recipe.toml --out NEW"
    )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return ``"train.lr 0.005, now 0.5"`` for each value that differs."""
    old, new = dict(flat_items(then)), dict(flat_items(now))
    ignored = ("engine", "title", "methods")
    engine = {
        f"engine.{key}"
        for key in (*engine_changes(then.get("engine")), *engine_changes(now["engine"]))
    }
    keys = [k for k in sorted({*old, *new}) if k in engine or k.split(".")[0] not in ignored]
    return [_change(key, old.get(key, "not set"), new.get(key, "not set")) for key in keys]


def check_data_kept(
    manifest: Mapping[str, Any], found: Mapping[str, Any], path: Path, keys: Iterable[str]
) -> None:
    """Raise ``RunError`` if the data are not those of the run's start."""
    expected = manifest["data"]
    for key in keys:
        if key in expected and key in found and expected[key] != found[key]:
            then, now = _short(expected[key]), _short(found[key])
            raise RunError(
                f"the data of '{path}' changed since the run began ({key.replace('_', ' ')}: "
                f"{then} then, {now} now); restore them, or start another run"
            )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def check_code_kept(manifest: Mapping[str, Any], recipe: Recipe, path: Path) -> None:
    """Raise ``RunError`` if a plug-in's file is not the one that the run was started with."""
    for code in named_code(recipe):
        then = manifest.get("code", {}).get(code.section)
        if then is not None and then.get("sha256") != code.sha256():
            raise RunError(
                f"{code}: expected the file that '{path}' was started with (SHA-256 "
                f"{str(then.get('sha256'))[:12]}), found {code.sha256()[:12] or 'none'} at "
                f"'{code.file}'"
            )
