"""A run folder for reading: what was run, its results and its model."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feda3i.core.predictor import Predictor
from feda3i.engine.events import last_rows, read_events
from feda3i.engine.loop import summarise_scores
from feda3i.engine.model_file import open_predictor
from feda3i.engine.run_folder import RunFolder
from feda3i.engine.scoring import Row
from feda3i.recipe import Recipe


@dataclass(frozen=True)
class LoadedRun:
    """A finished, running or broken run; nothing in its folder is changed."""

    path: Path
    recipe: Recipe
    manifest: dict[str, Any]
    is_done: bool

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events of the log, or those of one kind (``"round"``, ``"score"``, ...)."""
        return read_events(self.path / "events.jsonl", kind)

    def rows(self, split: str = "test") -> list[Row]:
        """Return the last scores, one row per case and class."""
        return last_rows(self.path / "events.jsonl", split)

    def scores(self) -> dict[str, float]:
        """Return the means of the last scores of the test cases."""
        return summarise_scores(self.rows())

    def predictor(self, *, trust_code: bool = False, best: bool = False) -> Predictor:
        """Return the last model, or the best one of the validation; its code must be trusted."""
        return open_predictor(self.path, trust_code=trust_code, best=best)


def load_run(path: str | Path) -> LoadedRun:
    """Open a run folder for reading; ``feda3i`` has an example."""
    folder = RunFolder.open(Path(path))
    return LoadedRun(folder.path, folder.recipe(), folder.manifest(), folder.is_done)
