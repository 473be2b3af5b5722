"""MLflow: one run per run folder, at MLflow's own tracking URI; a resumed run continues it."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

# Before the import: MLflow reports its use to its makers otherwise, and waits minutes for a server.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from feda3i.basics.files import write_file

EXPERIMENT = "feda3i"
KEPT = "mlflow.txt"
"""File of the run folder that names MLflow's own run, so that a resumed run continues it."""
LONGEST = 500
AT_ONCE = 100


class MlflowSink:
    """Write params, metrics and notes with MLflow's client."""

    def __init__(self, folder: Path, title: str, first: int | None, target: str | None) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._client = MlflowClient(tracking_uri=target)
        self._notes: list[str] = []
        kept = folder / KEPT
        if first is not None and first > 1 and kept.is_file():
            self._run = self._client.get_run(kept.read_text(encoding="utf-8").strip()).info.run_id
            self._client.update_run(self._run, status="RUNNING")
        else:
            self._run = self._new_run(folder, title)
            if first is not None:
                write_file(kept, f"{self._run}\n".encode())
        self.where = f"run {self._run} of the experiment '{EXPERIMENT}' in MLflow"

    def _new_run(self, folder: Path, title: str) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        place = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
        run = str(self._client.create_run(place, run_name=title).info.run_id)
        self._client.set_tag(run, "feda3i.folder", folder.name)
        return run

    def begin(self, params: Mapping[str, str]) -> None:
        """Log the recipe."""
        pairs = [Param(_name(key), value[:LONGEST]) for key, value in params.items()]
        for start in range(0, len(pairs), AT_ONCE):
            self._client.log_batch(self._run, params=pairs[start : start + AT_ONCE])

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Log metrics."""
        now = int(1000 * time.time())
        metrics = [Metric(_name(key), value, now, step) for key, value in values.items()]
        for start in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(self._run, metrics=metrics[start : start + AT_ONCE])

    def note(self, text: str, step: int) -> None:
        """Put the notes into the run's description."""
        self._notes.append(f"round {step}: {text}")
        self._client.set_tag(self._run, "mlflow.note.content", "\n\n".join(self._notes))

    def end(self, is_done: bool) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._run, "FINISHED" if is_done else "KILLED")


def _name(key: str) -> str:
    """Return a name that MLflow takes: letters, digits, and some signs."""
    return re.sub(r"[^\w\-. /]", "_", key)[:250]
