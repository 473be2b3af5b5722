"""The run folder: recipe, manifest, events, checkpoint, model, DONE.

A folder is a run from the moment its manifest is there; before, it holds nothing of worth.

All files are written atomically. The checkpoint names how far the event log reached when
it was written; a resume cuts the log there, so that no round appears twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import InstanceOf, NonNegativeInt, ValidationError

from feda3i.core.messages import Params
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.engine.events import Record, mistake_of, read_events
from feda3i.engine.job import Job
from feda3i.engine.lock import Lock, check_kinds, check_links, clear_start, is_free, sweep
from feda3i.engine.manifest import check_manifest, check_recipe_kept, manifest_of
from feda3i.engine.model_file import model_bytes
from feda3i.engine.validation import Best, write_best
from feda3i.errors import RunError, WireError
from feda3i.files import write_file
from feda3i.recipe import Recipe, validate
from feda3i.recipe.finding import read_toml
from feda3i.recipe.machine import with_local, write_local
from feda3i.values import check_plain, check_text


class _Checkpoint(Record):
    """What a checkpoint holds; it may come from elsewhere."""

    round: NonNegativeInt
    params: InstanceOf[Params]
    state: dict[str, Any]
    events: NonNegativeInt
    best: Best | None = None


class RunFolder:
    """One run on disk. Open it with ``create`` or ``open``; only one process can hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "state" / "checkpoint.bin"
        self.events = path / "events.jsonl"
        self.model = path / "model.safetensors"
        self.done = path / "DONE"
        self.cache = path / "cache"
        self._lock: Lock | None = None
        self._is_new = False

    @classmethod
    def claim(cls, path: Path) -> RunFolder:
        """Make and hold a new run folder; what anybody else left is never touched."""
        folder = cls(path)
        check_text(path.name, f"the run folder '{path}'")
        if path.exists() and not path.is_dir():
            raise RunError(f"expected a folder to make at '{path}', found a file")
        folder._check_free()
        folder._is_new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        folder._lock = Lock(path)
        try:
            folder._check_free()  # another process may have been here before the lock
            folder._lock.mark()
            clear_start(path)
            (path / "state").mkdir()
        except BaseException as error:
            if isinstance(error, OSError):
                folder.abandon()
            folder.close()
            raise
        return folder

    def _check_free(self) -> None:
        if self.is_run:
            raise RunError(
                f"'{self.path}' already holds a run; go on with it (feda3i resume {self.path}) or "
                f"choose another folder with --out"
            )
        if not is_free(self.path):
            raise RunError(
                f"'{self.path}' already holds something that no run made; choose a new or empty "
                f"folder with --out"
            )

    @classmethod
    def create(cls, path: Path, recipe: Recipe, facts: Mapping[str, Any]) -> RunFolder:
        """Make a new run folder that can be resumed from now on."""
        folder = cls.claim(path)
        folder.begin(recipe, facts)
        return folder

    def begin(self, recipe: Recipe, facts: Mapping[str, Any]) -> None:
        """Write recipe and manifest; from now on the run can be resumed."""
        import tomli_w

        manifest = manifest_of(recipe, facts)
        check_plain(manifest)
        write_local(self.path, recipe)
        write_file(self.path / "recipe.toml", tomli_w.dumps(recipe.shared()).encode())
        self._write_manifest(manifest)

    def _write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps(manifest, indent=2, sort_keys=True)
        write_file(self.path / "manifest.json", text.encode())

    def abandon(self) -> None:
        """Leave no trace of a run that failed before it began; one that began stays."""
        if self.is_run or self._lock is None:
            return
        clear_start(self.path)
        self._lock.remove()
        if self._is_new:
            with contextlib.suppress(OSError):
                self.path.rmdir()

    @classmethod
    def open(cls, path: Path, *, to_write: bool = False) -> RunFolder:
        """Open an existing run folder and check that this version can read it."""
        folder = cls(path)
        check_text(path.name, f"the run folder '{path}'")
        if not path.is_dir():
            raise RunError(f"expected a run folder, found nothing at '{path}'")
        check_kinds(path)
        if not folder.is_run and any(path.iterdir()) and is_free(path):
            raise RunError(
                f"'{path}' never became a run: it was interrupted before its first files were "
                f"written, and nothing is lost. Start it again: feda3i run RECIPE --out {path}"
            )
        folder.manifest()
        check_log(path)
        if to_write:
            check_links(path)
            folder._lock = Lock(path)
            sweep(path)
        return folder

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        try:
            content = json.loads((self.path / "manifest.json").read_text("utf-8"))
        except FileNotFoundError:
            raise RunError(f"'{self.path}' is not a run folder: it has no manifest.json") from None
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"'{self.path}/manifest.json' cannot be read: {error}") from None
        return check_manifest(content, self.path / "manifest.json")

    def recipe(self) -> Recipe:
        """Return the recipe of the run, with the places of this machine, if it is still the same.

        Raises ``RunError`` if it was changed in more than ``engine.*``.
        """
        recipe = validate(with_local(read_toml(self.path / "recipe.toml"), self.path))
        check_recipe_kept(self.manifest(), recipe, self.path, self._first_recipe())
        return recipe

    def _first_recipe(self) -> dict[str, Any] | None:
        """Return the recipe that the event log begins with."""
        try:
            recipe: dict[str, Any] = next(read_events(self.events, "start"))["recipe"]
        except (RunError, StopIteration):
            return None
        return recipe

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
        self.write(self.packed(round, params, state))

    def packed(
        self,
        round: int,
        params: Params,
        state: dict[str, Any],
        best: dict[str, Any] | None = None,
    ) -> bytes:
        """Return a checkpoint of this moment, to be written once its model has proven sane."""
        size = self.events.stat().st_size if self.events.exists() else 0
        tree = {"round": round, "params": params, "state": state, "events": size}
        tree |= {} if best is None else {"best": best}
        return seal(pack(tree))

    def write(self, packed: bytes) -> None:
        """Write a checkpoint that was packed."""
        write_file(self.checkpoint, packed)

    def load(self) -> dict[str, Any] | None:
        """Return the last checkpoint, or ``None`` if the run had not begun."""
        if not self.checkpoint.exists():
            return None
        try:
            tree: dict[str, Any] = unpack(unseal(self.checkpoint.read_bytes()))
            _Checkpoint.model_validate(tree)
        except (OSError, WireError, ValidationError) as error:
            raise RunError(
                f"the checkpoint '{self.checkpoint}' cannot be used: {mistake_of(error)}. Restore "
                f"it from a copy, or repeat the run in another folder: feda3i run "
                f"{self.path}/recipe.toml"
            ) from None
        return tree

    def cut_events(self, size: int) -> None:
        """Drop events that were written after the checkpoint."""
        self.check_events(size)
        if self.events.exists():
            with self.events.open("r+b") as file:
                file.truncate(size)

    def check_events(self, size: int) -> None:
        """Raise ``RunError`` if the log is shorter than it was when the checkpoint was written."""
        found = self.events.stat().st_size if self.events.exists() else 0
        if found < size:
            raise RunError(
                f"the event log '{self.events}' has {found} bytes, and its checkpoint was written "
                f"after {size}: a part is lost. Restore it from a copy, or repeat the run in "
                f"another folder: feda3i run {self.path}/recipe.toml --out NEW"
            )

    def check_unplayed(self) -> None:
        """Raise ``RunError`` if rounds were played although there is no checkpoint of them."""
        if self.events.exists() and self.events.stat().st_size:
            raise RunError(
                f"'{self.path}' has events of rounds, but its checkpoint '{self.checkpoint}' is "
                f"gone. Restore it from a copy, or repeat the run in another folder: feda3i run "
                f"{self.path}/recipe.toml --out NEW"
            )

    # -- the end ----------------------------------------------------------------------------------

    def finish(self, job: Job, params: Params, best: Best | None = None) -> str:
        """Write the models and DONE, and drop the pixels; return the last model's SHA-256."""
        if best is not None:
            write_best(self.path, best, model_bytes(job, best.params))
        data = model_bytes(job, params)
        digest = hashlib.sha256(data).hexdigest()
        write_file(self.model, data)
        self._write_manifest({**self.manifest(), "events_sha256": hash_log(self.path)})
        self.drop_cache()
        write_file(self.done, f"{digest}\n".encode())
        return digest

    def check_model(self) -> str:
        """Return the SHA-256 of the finished model; ``RunError`` unless it is the one of DONE."""
        try:
            expected = self.done.read_text(encoding="utf-8").strip()
            found = hashlib.sha256(self.model.read_bytes()).hexdigest()
        except FileNotFoundError as error:
            name = Path(error.filename).name
            raise RunError(
                f"'{self.path}' has no {name}: its run is not done; feda3i resume {self.path}"
            ) from None
        except (OSError, ValueError) as error:
            raise RunError(f"'{self.path}': its model or DONE cannot be read: {error}") from None
        if found != expected:
            raise RunError(
                f"'{self.model}' is not the model that this run made: expected SHA-256 "
                f"{expected[:12]} (DONE), found {found[:12]}. Remove DONE, then feda3i resume "
                f"{self.path} writes it again from the checkpoint"
            )
        return found

    def drop_cache(self) -> None:
        """Remove the pixels that processes shared."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def hash_log(folder: Path) -> str:
    """Return the SHA-256 of a run's event log; of nothing if there is none."""
    path = folder / "events.jsonl"
    try:
        return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()
    except OSError as error:
        raise RunError(f"the event log '{path}' cannot be read: {error}") from None


def check_log(folder: Path) -> None:
    """Raise ``RunError`` if the log of a finished run is not the one that the run wrote.

    Whatever reads results calls this: ``RunFolder.open`` does, and so does the report.
    """
    if not (folder / "DONE").exists():
        return
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        expected = str(manifest.get("events_sha256", "none"))
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise RunError(f"'{folder}/manifest.json' cannot be read: {error}") from None
    found = hash_log(folder)
    if found != expected:
        raise RunError(
            f"'{folder}/events.jsonl' is not the log that this run wrote: expected SHA-256 "
            f"{expected[:12]} (manifest.json), found {found[:12]}; restore it from a copy"
        )
