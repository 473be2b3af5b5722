"""Copy numbers of rounds and sites, recipe and notes of a run to TensorBoard and MLflow.

A sink that fails is reported once, and the run continues without it.
"""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from feda3i.engine.events import Event
from feda3i.errors import summary
from feda3i.files import write_file
from feda3i.values import flat_items

SKIPPED = frozenset({"event", "round", "rows", "said", "missing", "survey", "survey_missing"})
"""Keys of an event that are no numbers, or become numbers in another way."""
KEPT = "mlflow.txt"
"""File of the run folder that names MLflow's own run, so that a resumed run continues it."""


class Tracker:
    """Sinks of one run, each until it fails for the first time; ``first`` is the next round."""

    def __init__(
        self, names: Sequence[str], folder: Path, first: int, tell: Callable[[str], None]
    ) -> None:
        self.sinks: dict[str, Any] = {}
        self._tell, self._round = tell, first - 1
        for name in names:
            try:
                self.sinks[name] = SINKS[name](folder, first)
            except Exception as error:  # any: a server that does not answer, a folder not writable
                is_lacking = isinstance(error, ImportError)
                advice = "; install it with pip install 'feda3i[tracking]'" if is_lacking else ""
                tell(f"NOTE: no tracking by {name}: {summary(error)}{advice}")

    def take(self, event: Event) -> None:
        """Pass an event on."""
        kind, notes = event["event"], event.get("said", [])
        if kind == "start":
            self._each("begin", {key: str(value) for key, value in flat_items(event["recipe"])})
        elif kind == "round":
            self._round = int(event["round"])
            self._each("numbers", event_numbers(event), self._round)
        elif kind == "note":
            notes = [event["text"]]
        for text in notes:
            self._each("note", text, self._round)

    def end(self, is_done: bool) -> None:
        """Close all sinks; ``is_done`` says whether the run came to its end."""
        self._each("end", is_done)
        self.sinks = {}

    def _each(self, task: str, *given: Any) -> None:
        for name, sink in list(self.sinks.items()):
            try:
                getattr(sink, task)(*given)
            except Exception as error:  # any: it is somebody else's program, and only a copy
                del self.sinks[name]
                self._tell(f"NOTE: tracking by {name} stopped, the run continues: {summary(error)}")


class _TensorBoard:
    """Event files in ``RUN/tensorboard``."""

    def __init__(self, folder: Path, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Rounds that are written again replace what was written of them.
        purge = first if first > 1 else None
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def begin(self, params: Mapping[str, str]) -> None:
        rows = "\n".join(f"| {key} | {value} |" for key, value in params.items())
        self._writer.add_text("recipe", f"| key | value |\n|---|---|\n{rows}", 0)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def note(self, text: str, step: int) -> None:
        self._writer.add_text("notes", text, step)

    def end(self, is_done: bool) -> None:
        self._writer.close()


class _Mlflow:
    """One MLflow run per run folder, at ``MLFLOW_TRACKING_URI`` or beside the run folder."""

    def __init__(self, folder: Path, first: int) -> None:
        # Before the import: MLflow reports its use otherwise, and waits minutes for a server.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        whole = folder.resolve()
        # Nobody's working directory gets files that were not asked for.
        beside = whole if whole.parent == Path.cwd() else whole.parent
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        self._client: Any = MlflowClient(tracking_uri=uri or f"sqlite:///{beside / 'mlflow.db'}")
        self._notes: list[str] = []
        kept = folder / KEPT
        if first > 1 and kept.is_file():
            self._run = kept.read_text(encoding="utf-8").strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        found = self._client.get_experiment_by_name("feda3i")
        files = None if uri else (beside / "mlruns").as_uri()
        place = found.experiment_id if found else self._client.create_experiment("feda3i", files)
        self._run = str(self._client.create_run(place, run_name=folder.name).info.run_id)
        self._client.set_tag(self._run, "feda3i.folder", folder.name)
        write_file(kept, f"{self._run}\n".encode())

    def begin(self, params: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        self._log("params", [Param(_mlflow_name(k), value[:500]) for k, value in params.items()])

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._log("metrics", [Metric(_mlflow_name(k), v, now, step) for k, v in values.items()])

    def _log(self, kind: str, items: Sequence[Any]) -> None:
        for start in range(0, len(items), 100):  # the most that MLflow takes at once
            self._client.log_batch(self._run, **{kind: items[start : start + 100]})

    def note(self, text: str, step: int) -> None:
        self._notes.append(f"round {step}: {text}")
        self._client.set_tag(self._run, "mlflow.note.content", "\n\n".join(self._notes))

    def end(self, is_done: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if is_done else "KILLED")


SINKS: dict[str, Callable[[Path, int], Any]] = {"tensorboard": _TensorBoard, "mlflow": _Mlflow}


def _mlflow_name(key: str) -> str:
    return re.sub(r"[^\w\-. /]", "_", key)[:250]


def event_numbers(event: Event) -> dict[str, float]:
    """Return the numbers of a round by name; ``site_loss/A`` is that of site A.

    >>> event_numbers({"event": "round", "round": 2, "loss": 0.5, "site_loss": {"A": 0.4}})
    {'loss': 0.5, 'site_loss/A': 0.4}
    """
    values = {key: value for key, value in event.items() if key not in SKIPPED}
    survey = event.get("survey") or {}
    for number, part in enumerate(survey.get("parts", ()), 1):
        pairs = zip(survey["sites"], part.get("offset") or (), strict=False)
        values[f"offset_of_class_{number}"] = {site: pair[0] for site, pair in pairs}
    return dict(_flat("", values))


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the finite numbers of a value: itself, those of a dictionary, those of a list."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            yield name, float(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{name}/{key}" if name else key, item)
    elif isinstance(value, list | tuple):
        yield from _flat(name, dict(enumerate(value, 1)))
