"""A model card as on Hugging Face and in MONAI: README.md with a YAML head."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from feda3i.core.format import Format
from feda3i.engine.results import LoadedRun
from feda3i.engine.scoring import Row, mean_of
from feda3i.export.arithmetic import takes_bytes
from feda3i.simulation.views import card_of

SPLITS = ("test", "validation", "train")


def model_card(run: LoadedRun, kind: str, form: Format, best: bool = False) -> str:
    """Return the card of a run's last or best model, for an export of this kind."""
    played = max((event["round"] for event in run.events("round")), default=0)
    number = run.manifest["best"]["round"] if best else played
    scores = _scores(run, number)
    # SimpleITK's arrays have the axes of a file in reverse.
    order = tuple(2 - axis for axis in axes_of(form)[0])
    return _template().render(
        recipe=run.recipe,
        manifest=run.manifest,
        data=run.manifest.get("data", {}),
        sites=dict(run.manifest.get("data", {}).get("sites", {})),
        title=run.recipe.title or run.path.name,
        classes=class_names(run),
        method=card_of(run.recipe.method.name).splitlines()[0],
        round=number,
        best=best,
        is_bundle=kind == "monai-bundle",
        form=form,
        takes_bytes=takes_bytes(form),
        order=order,
        back=tuple(int(axis) for axis in np.argsort(order)),
        scores=scores,
        dice=mean_of(scores["test"], "dice"),
        notes=[e["text"] for e in run.events("note") if e.get("is_result")],
    )


def class_names(run: LoadedRun) -> list[str]:
    """Return the names of the foreground classes."""
    return [str(name) for name in run.manifest.get("data", {}).get("classes", ["object"])]


def axes_of(form: Format) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a NIfTI file as (slice, row, column), and the way back.

    >>> axes_of(Format(1, 1, (32, 32, 32), axis=0))
    ((0, 2, 1), (0, 2, 1))
    """
    order = (form.axis, *reversed([axis for axis in range(3) if axis != form.axis]))
    return order, tuple(int(axis) for axis in np.argsort(order))


def _template() -> jinja2.Template:
    made = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    made.tests["finite"] = math.isfinite
    made.filters |= {
        "json": json.dumps,
        "cell": lambda value: str(value).replace("|", "/"),
        "options": _options,
        "mean": _mean,
        "of_site": _of_site,
    }
    return made.from_string(Path(__file__).with_name("card.md.j2").read_text("utf-8"))


def _scores(run: LoadedRun, number: int) -> dict[str, list[Row]]:
    """Return the rows of each split: of this round where it was scored, else of the last time."""
    found: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for event in run.events("score"):
        if event["split"] in found and (event["round"] <= number or not found[event["split"]]):
            found[event["split"]] = event["rows"]
    return found


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items()) or "as by default"


def _mean(rows: Sequence[Row], name: str) -> str:
    value = mean_of(rows, name)
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _of_site(rows: Sequence[Row], site: str) -> list[Row]:
    return [row for row in rows if site in (row.get("site"), row.get("case"))]
