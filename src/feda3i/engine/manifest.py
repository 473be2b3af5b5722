"""The manifest: what identifies a run (versions, hashes, machine), and what of it changed since."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from feda3i import __version__
from feda3i.engine.events import Record, mistake_of
from feda3i.errors import RecipeError, RunError, shown
from feda3i.recipe import Recipe
from feda3i.recipe.sections import without_machine
from feda3i.recipe.trust import named_code
from feda3i.values import check_plain, flat_items

FORMAT = 1
OLD = "0.1."  # versions whose folders this one does not read: their recipes have keys that are gone
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


class BestModel(Record):
    """The model of the round that scored best on the validation cases."""

    round: int
    score: float
    sha256: str


class _Manifest(Record):
    feda3i: str
    created: str
    recipe_sha256: str
    machine: str
    python: str
    packages: dict[str, str]
    processor: dict[str, str]
    data: _Data
    code: dict[str, dict[str, str]] = Field({})
    branched: int = 0
    run: str = ""
    events_sha256: str = ""
    best: BestModel | None = None


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
        given = _Manifest.model_validate(content).data.model_fields_set
        lacking = [key for key in _Data.model_fields if key not in given]
        if lacking and found.get("engine") != "flower":
            raise RecipeError(f"data.{lacking[0]}: missing")
    except (ValidationError, RecipeError) as error:
        raise RunError(f"'{path}' is damaged: {mistake_of(error)}") from None
    return found


def manifest_of(recipe: Recipe, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a run."""
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "recipe_sha256": recipe.digest(),
        "seed": recipe.seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "code": {c.section: {"name": c.name, "sha256": c.sha256()} for c in named_code(recipe)},
        "feda3i": __version__,
        "python": platform.python_version(),
        "packages": packages(),
        "processor": dict(processor()),
        **facts,
    }


def packages() -> dict[str, str]:
    """Return the versions of the libraries that results depend on."""
    versions = dict.fromkeys(PACKAGES, "not installed")
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


@cache
def processor() -> Mapping[str, str]:
    """Return the processor's name, the instructions torch uses, and oneDNN's limit if one is set.

    Rounding depends on them: the same run on another kind of processor differs in last digits.
    """
    import torch

    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "none"
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        found = re.search(r"^model name\s*:[ \t]*(.*\S)", told, re.MULTILINE)
        name = found[1] if found else name
    instructions = torch.backends.cpu.get_cpu_capability()
    return {"name": name, "instructions": instructions, "onednn_limit": limit}


def moved(manifest: Mapping[str, Any]) -> list[str]:
    """Return one line each for versions and processor that are not those of the run's start."""
    then = {"feda3i": manifest["feda3i"], **manifest["packages"]}
    lines = []
    if versions := _changes(then, {"feda3i": __version__, **packages()}):
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


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return ``"train.lr 0.005, now 0.5"`` for each value that differs."""
    keys = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
    named = (f"{k} {then.get(k, 'not set')}, now {now.get(k, 'not set')}" for k in keys)
    return "; ".join(named)


def check_recipe_kept(
    manifest: Mapping[str, Any], recipe: Recipe, path: Path, start: Mapping[str, Any]
) -> None:
    """Raise ``RunError`` if more than machine and title of a recipe changed since the start.

    ``start`` is the recipe as the event log has it, to say what was changed; empty without a log.
    """
    if manifest["recipe_sha256"] == recipe.digest():
        return
    then, now = (
        {key: v for key, v in flat_items(without_machine(values)) if key != "title"}
        for values in (start, recipe.shared())
    )
    changes = f": {_changes(then, now)}" if start else ""
    raise RunError(
        f"'{path}/recipe.toml' is not the recipe that this run was started with{changes}. Undo the "
        f"change, or start another run: feda3i run {path}/recipe.toml --out NEW"
    )


def check_data_kept(
    manifest: Mapping[str, Any],
    found: Mapping[str, Any],
    path: Path,
    keys: Iterable[str] = COMPARED,
) -> None:
    """Raise ``RunError`` if the data, as far as they were found, are not those of the start."""
    expected = manifest["data"]
    for key in keys:
        if key in expected and key in found and expected[key] != found[key]:
            raise RunError(
                f"the data of '{path}' changed since the run began ({key.replace('_', ' ')}: "
                f"{str(expected[key])[:80]} then, {str(found[key])[:80]} now)"
            )


def check_code_kept(manifest: Mapping[str, Any], recipe: Recipe, path: Path) -> None:
    """Raise ``RunError`` if a plug-in's file is not the one that the run was started with."""
    for code in named_code(recipe):
        then = manifest.get("code", {}).get(code.section)
        if then is not None and then.get("sha256") != code.sha256():
            raise RunError(
                f"{code}: expected the file that '{path}' was started with, found another (or "
                f"none) at '{code.file}'"
            )
