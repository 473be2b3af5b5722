"""The run folder: recipe, manifest, events, checkpoint, model, DONE.

Everything is written whole or not at all. The checkpoint names how far the event log reached when
it was written; a resume cuts the log there, so that no round is told twice.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from feda3i import __version__
from feda3i.codec import pack, seal, unpack, unseal, write_file
from feda3i.engine.job import Job
from feda3i.engine.layout import Layout
from feda3i.errors import RecipeError, RunError, WireError
from feda3i.recipe import Recipe, read_toml, validate
from feda3i.trust import check_trust
from feda3i.types import Params

FORMAT = 1
MAX_SIDE = 2**16
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "opencv-python-headless", "safetensors")


class RunFolder:
    """One run on disk. Open it with ``create`` or ``open``; only one process can hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "state" / "checkpoint.bin"
        self.events = path / "events.jsonl"
        self.model = path / "model.safetensors"
        self.done = path / "DONE"
        self.cache = path / "cache"
        self._lock: IO[bytes] | None = None

    @classmethod
    def claim(cls, path: Path) -> RunFolder:
        """Make and hold a new run folder; what another run left is never overwritten."""
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise RunError(f"expected a folder to make at '{path}', found a file")
        if (path / "manifest.json").exists():
            raise RunError(
                f"'{path}' already holds a run; go on with it (feda3i resume {path}) or choose "
                f"another folder with --out"
            )
        if path.exists() and any(not _is_ours(file.name) for file in path.iterdir()):
            raise RunError(f"'{path}' already holds something else; choose another --out")
        (path / "state").mkdir(parents=True, exist_ok=True)
        folder._hold()
        return folder

    @classmethod
    def create(cls, path: Path, recipe: Recipe, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run folder that can be resumed from now on."""
        folder = cls.claim(path)
        folder.begin(recipe, facts)
        return folder

    def begin(self, recipe: Recipe, facts: Mapping[str, Any]) -> None:
        """Write recipe and manifest; from now on the run can be resumed."""
        write_file(self.path / "recipe.toml", recipe.to_toml().encode())
        text = json.dumps(manifest_of(recipe, facts), indent=2, sort_keys=True)
        write_file(self.path / "manifest.json", text.encode())

    @classmethod
    def open(cls, path: Path, *, to_write: bool = False) -> RunFolder:
        """Open an existing run folder and check that this version can read it."""
        folder = cls(path)
        if not path.is_dir():
            raise RunError(f"expected a run folder, found nothing at '{path}'")
        manifest = folder.manifest()
        if manifest.get("format") != FORMAT:
            raise RunError(
                f"'{path}' was written by feda3i {manifest.get('feda3i', 'of unknown version')} "
                f"(run format {manifest.get('format')}); this is {__version__} (format {FORMAT}). "
                f"Use that version, or repeat the run"
            )
        if to_write:
            folder._hold()
        return folder

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        try:
            content: dict[str, Any] = json.loads((self.path / "manifest.json").read_text())
        except FileNotFoundError:
            raise RunError(f"'{self.path}' is not a run folder: it has no manifest.json") from None
        except (OSError, ValueError) as error:
            raise RunError(f"'{self.path}/manifest.json' cannot be read: {error}") from None
        return content

    def recipe(self) -> Recipe:
        """Return the recipe of the run."""
        return validate(read_toml(self.path / "recipe.toml"))

    @property
    def is_run(self) -> bool:
        """Return whether there is a run to go on with."""
        return (self.path / "manifest.json").is_file()

    @property
    def is_done(self) -> bool:
        """Return whether the run came to its end."""
        return self.done.exists()

    # -- checkpoint -------------------------------------------------------------------------------

    def save(self, round: int, params: Params, state: dict[str, Any]) -> None:
        """Write the checkpoint after a round; the events so far must be on disk before."""
        size = self.events.stat().st_size if self.events.exists() else 0
        tree = {"round": round, "params": params, "state": state, "events": size}
        write_file(self.checkpoint, seal(pack(tree)))

    def load(self) -> dict[str, Any] | None:
        """Return the last checkpoint, or ``None`` if the run had not begun."""
        if not self.checkpoint.exists():
            return None
        try:
            tree: dict[str, Any] = unpack(unseal(self.checkpoint.read_bytes()))
        except (OSError, WireError) as error:
            raise RunError(
                f"the checkpoint '{self.checkpoint}' cannot be used: {error}. Restore it from a "
                f"copy, or repeat the run in another folder: feda3i run {self.path}/recipe.toml"
            ) from None
        return tree

    def cut_events(self, size: int) -> None:
        """Drop events that were written after the checkpoint."""
        if self.events.exists():
            with self.events.open("r+b") as file:
                file.truncate(size)

    # -- the end ----------------------------------------------------------------------------------

    def finish(self, job: Job, layout: Layout, params: Params) -> str:
        """Write the model and DONE; return the model's SHA-256."""
        data = model_bytes(job, layout, params)
        digest = hashlib.sha256(data).hexdigest()
        write_file(self.model, data)
        write_file(self.done, f"{digest}\n".encode())
        shutil.rmtree(self.cache, ignore_errors=True)
        return digest

    def _hold(self) -> None:
        """Lock the folder for this process; the lock ends with the process, however it ends."""
        self._lock = (self.path / ".lock").open("wb")
        try:
            import fcntl

            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            return  # no such locks on this system
        except OSError:
            raise RunError(f"another process is working on '{self.path}'; wait for it") from None

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _is_ours(name: str) -> bool:
    """Return whether a run that was broken off before it began may have left this."""
    return name in (".lock", "state", "cache", "recipe.toml") or name.startswith("noise-")


def manifest_of(recipe: Recipe, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a run: versions, seeds, hashes, machine."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "format": FORMAT,
        "feda3i": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "recipe_sha256": recipe.digest(),
        "seed": recipe.seed,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": versions,
        **facts,
    }


def model_bytes(job: Job, layout: Layout, params: Params) -> bytes:
    """Return the model as a safetensors file that says how to build its network."""
    from safetensors.torch import save

    # Without the engine's section and the place of the data: where a model was trained must not
    # change the file, and a name of a hospital's folder must not travel with it.
    recipe = {key: value for key, value in job.recipe.to_dict().items() if key != "engine"}
    recipe["data"] = {key: value for key, value in recipe["data"].items() if key != "path"}
    about = {
        "format": FORMAT,
        "recipe": recipe,
        "channels": job.channels,
        "classes": job.classes,
        "shape": list(job.shape),
    }
    # One key only: the library writes several metadata keys in no fixed order.
    return bytes(
        save(layout.tensors(params), metadata={"feda3i": json.dumps(about, sort_keys=True)})
    )


def read_model(path: Path, *, trust_code: bool = False) -> tuple[Job, dict[str, Any]]:
    """Return the job and the named tensors of a model file.

    A model file may come from anywhere: unless its code is trusted, it names what is installed.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["feda3i"])
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise RunError(f"there is no model at '{path}'; is the run done? feda3i resume") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(f"'{path}' is not a model file of feda3i: {error}") from None
    try:
        recipe = validate(about["recipe"])
        job = Job(recipe, int(about["channels"]), int(about["classes"]), _shape(about["shape"]))
    except (KeyError, TypeError, ValueError, RecipeError) as error:
        raise RunError(f"'{path}' is not a model file of feda3i: {error}") from None
    if not (1 <= job.channels <= 64 and 1 <= job.classes <= 255):
        raise RunError(f"'{path}': {job.channels} channels and {job.classes} classes cannot be")
    check_trust(recipe, path, trust_code)
    return job, tensors


def _shape(sides: Any) -> tuple[int, ...]:
    shape = tuple(int(side) for side in sides)
    if not all(1 <= side <= MAX_SIDE for side in shape):
        raise ValueError(f"expected a size of 1 to {MAX_SIDE} px per side, found {shape}")
    return shape
