"""The run folder: recipe, manifest, events, checkpoint, model, DONE.

All files are written atomically. The checkpoint names how far the event log reached when it was
written; a resume cuts the log there, so that no round appears twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import InstanceOf, NonNegativeInt, ValidationError

from feda3i.core.messages import Params
from feda3i.core.trees import pack, seal, unpack, unseal
from feda3i.engine import lock
from feda3i.engine.events import Record, mistake_of, read_events
from feda3i.engine.job import Job
from feda3i.engine.manifest import BestModel, check_manifest, check_recipe_kept, manifest_of
from feda3i.engine.model_file import model_bytes
from feda3i.engine.validation import Best
from feda3i.errors import RunError, WireError
from feda3i.files import PART, write_file
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
    """One run on disk, from ``create`` or ``open``; only one process can hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "state" / "checkpoint.bin"
        self.events = path / "events.jsonl"
        self.model = path / "model.safetensors"
        self.best_model = path / "best.safetensors"
        self.done = path / "DONE"
        self._lock: BinaryIO | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        recipe: Recipe,
        facts: Mapping[str, Any],
        begin: Callable[[RunFolder], None] = lambda _: None,
    ) -> RunFolder:
        """Make and hold a new run folder that can be resumed; what others left is not touched.

        It is made beside its place, where ``begin`` may write rounds that another run has played,
        and moved there whole: a kill leaves no half of a run.
        """
        import tomli_w

        check_new(path)
        beside = path.with_name(f"{PART}{os.getpid()}-{path.name}")
        folder = cls(path)
        try:
            (beside / "state").mkdir(parents=True)
            folder._lock = lock.hold(beside)
            manifest = manifest_of(recipe, facts)
            check_plain(manifest)
            write_local(beside, recipe)
            write_file(beside / "recipe.toml", tomli_w.dumps(recipe.shared()).encode())
            _write_manifest(beside, manifest)
            begin(cls(beside))
            os.rename(beside, path)
        except BaseException as error:
            folder.close()
            shutil.rmtree(beside, ignore_errors=True)
            if isinstance(error, OSError):
                check_new(path)  # another process may have been faster
            raise
        return folder

    @classmethod
    def open(cls, path: Path, *, to_write: bool = False) -> RunFolder:
        """Open an existing run folder that this version can read."""
        folder = cls(path)
        check_text(path.name, f"the run folder '{path}'")
        if not path.is_dir():
            raise RunError(f"expected a run folder, found nothing at '{path}'")
        lock.check_plain_files(path)
        expected = str(folder.manifest().get("events_sha256", "none"))
        if folder.is_done and (found := hash_file(folder.events)) != expected:
            raise RunError(
                f"'{folder.events}' is not the log that this run wrote: expected SHA-256 "
                f"{expected[:12]} (manifest.json), found {found[:12]}; restore it from a copy"
            )
        if to_write:
            folder._lock = lock.hold(path)
            for part in [p for p in path.rglob(f"{PART}*") if p.is_file()]:
                part.unlink()  # whoever holds the lock knows that its process is dead
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
        """Return the recipe, with this machine's places; ``RunError`` if more was changed."""
        recipe = validate(with_local(read_toml(self.path / "recipe.toml"), self.path))
        start: Mapping[str, Any] = {}
        with contextlib.suppress(RunError, StopIteration):
            start = next(read_events(self.events, "start"))["recipe"]
        check_recipe_kept(self.manifest(), recipe, self.path, start)
        return recipe

    @property
    def is_run(self) -> bool:
        """Whether there is a run to go on with."""
        return (self.path / "manifest.json").is_file()

    @property
    def is_done(self) -> bool:
        """Whether the run came to its end."""
        return self.done.exists()

    def save(self, round: int, params: Params, state: dict[str, Any]) -> None:
        """Write the checkpoint after a round; the events so far must be on disk before."""
        write_file(self.checkpoint, self.packed(round, params, state))

    def packed(
        self, round: int, params: Params, state: dict[str, Any], best: Best | None = None
    ) -> bytes:
        """Return a checkpoint of this moment, to be written once its model has proven sane."""
        tree = {"round": round, "params": params, "state": state, "events": self._log_size()}
        tree |= {} if best is None else {"best": dict(best)}
        return seal(pack(tree))

    def load(self) -> dict[str, Any] | None:
        """Return the last checkpoint, or ``None`` if the run had not begun."""
        again = f"Restore it from a copy, or repeat the run: feda3i run {self.path}/recipe.toml"
        if not self.checkpoint.exists():
            if self._log_size():
                raise RunError(f"the checkpoint '{self.checkpoint}' is gone. {again}")
            return None
        try:
            tree: dict[str, Any] = unpack(unseal(self.checkpoint.read_bytes()))
            _Checkpoint.model_validate(tree)
        except (OSError, WireError, ValidationError) as error:
            what = f"cannot be used: {mistake_of(error)}"
            raise RunError(f"the checkpoint '{self.checkpoint}' {what}. {again}") from None
        if self._log_size() < tree["events"]:
            raise RunError(
                f"the event log '{self.events}' has {self._log_size()} bytes, and its checkpoint "
                f"was written after {tree['events']}: a part is lost. {again}"
            )
        return tree

    def _log_size(self) -> int:
        return self.events.stat().st_size if self.events.exists() else 0

    def finish(self, job: Job, params: Params, best: Best | None = None) -> None:
        """Write the models and DONE, and drop the pixels that processes shared."""
        facts: dict[str, Any] = {}
        if best is not None:
            digest = _write_hashed(self.best_model, model_bytes(job, best.params))
            facts["best"] = {"round": best.round, "score": round(best.score, 6), "sha256": digest}
        digest = _write_hashed(self.model, model_bytes(job, params))
        facts["events_sha256"] = hash_file(self.events)
        _write_manifest(self.path, {**self.manifest(), **facts})
        shutil.rmtree(self.path / "cache", ignore_errors=True)
        write_file(self.done, f"{digest}\n".encode())

    def check_model(self) -> str:
        """Return the SHA-256 of the finished model; ``RunError`` unless it is the one of DONE."""
        if not self.is_done:
            raise RunError(f"'{self.path}' has no DONE: its run is not done; try feda3i resume")
        expected = self.done.read_text(encoding="utf-8", errors="replace").strip()
        _check_hash(self.model, expected)
        return expected

    def best(self) -> BestModel | None:
        """Return what is known of the best model; ``None`` if there is none."""
        found = self.manifest().get("best")
        return None if found is None else BestModel.model_validate(found)

    def check_best(self) -> None:
        """Raise ``RunError`` unless there is a best model, and it is the one that the run made."""
        best = self.best()
        if best is None:
            raise RunError(
                f"'{self.path}' has no best model: its run kept no validation cases "
                f"(validation.share); leave --best out to use the last model"
            )
        _check_hash(self.best_model, best.sha256)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def check_new(path: Path) -> None:
    """Raise ``RunError`` unless a new run can be made at this place."""
    check_text(path.name, f"the run folder '{path}'")
    if path.exists() and not path.is_dir():
        raise RunError(f"expected a folder to make at '{path}', found a file")
    if (path / "manifest.json").exists():
        raise RunError(
            f"'{path}' already holds a run: feda3i resume {path}, or choose another --out"
        )
    if path.is_dir() and any(path.iterdir()):
        raise RunError(
            f"'{path}' holds something that no run made; choose a new or empty folder with --out"
        )


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    write_file(folder / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True).encode())


def _write_hashed(path: Path, data: bytes) -> str:
    write_file(path, data)
    return hashlib.sha256(data).hexdigest()


def _check_hash(model: Path, expected: str) -> None:
    found = hash_file(model)
    if found != expected:
        raise RunError(
            f"'{model}' is not the model that this run made: expected SHA-256 {expected[:12]}, "
            f"found {found[:12]}; without DONE, feda3i resume {model.parent} writes it again"
        )


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; of nothing if there is none."""
    try:
        return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()
    except OSError as error:
        raise RunError(f"'{path}' cannot be read: {error}") from None
