"""TensorBoard: event files in ``RUN/tensorboard``; ``tensorboard --logdir runs`` shows all runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter


class TensorBoardSink:
    """Write scalars and text for TensorBoard."""

    def __init__(self, folder: Path, title: str, first: int | None, target: str | None) -> None:
        where = Path(target) / folder.name if target else folder / "tensorboard"
        # Rounds that are written again replace what was written of them.
        purge = 0 if first is None else first if first > 1 else None
        self._writer = SummaryWriter(str(where), purge_step=purge)
        self.where = f"tensorboard --logdir {where}"

    def begin(self, params: Mapping[str, str]) -> None:
        """Write the recipe as a table."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in params.items())
        self._writer.add_text("recipe", f"| key | value |\n|---|---|\n{rows}", 0)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Write scalars."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def note(self, text: str, step: int) -> None:
        """Write text."""
        self._writer.add_text("notes", text, step)

    def end(self, is_done: bool) -> None:
        """Close the file."""
        self._writer.close()
