"""A model card as on Hugging Face and in MONAI: README.md with a YAML head."""

import json
import math
from pathlib import Path

import jinja2
import numpy as np

from feda3i.core.format import Format
from feda3i.engine.results import LoadedRun
from feda3i.engine.scoring import Row, mean_of
from feda3i.export.arithmetic import takes_bytes
from feda3i.simulation.views import card_of


def model_card(run: LoadedRun, kind: str, form: Format, best: bool = False) -> str:
    """Return the card of a run's last or best model, for an export of this kind."""
    played = max((event["round"] for event in run.events("round")), default=0)
    number = run.manifest["best"]["round"] if best else played
    scores: dict[str, list[Row]] = {"test": [], "validation": [], "train": []}
    for event in run.events("score"):  # of this round where it was scored, else of the last time
        split = event["split"]
        if split in scores and (event["round"] <= number or not scores[split]):
            scores[split] = event["rows"]
    # SimpleITK's arrays have the axes of a file in reverse.
    order = tuple(2 - axis for axis in axes_of(form)[0])
    return _template().render(
        recipe=run.recipe,
        manifest=run.manifest,
        data=run.manifest["data"],
        sites=run.manifest["data"].get("sites", {}),
        title=run.recipe.title or run.path.name,
        classes=class_names(run),
        method=card_of(run.recipe.method.name).splitlines()[0],
        round=number,
        best=best,
        is_bundle=kind == "monai-bundle",
        form=form,
        takes_bytes=takes_bytes(form),
        order=order,
        back=tuple(np.argsort(order).tolist()),
        scores=scores,
        dice=mean_of(scores["test"], "dice"),
        notes=[event["text"] for event in run.events("note") if event["is_result"]],
    )


def class_names(run: LoadedRun) -> list[str]:
    """Return the names of the foreground classes."""
    return list(run.manifest["data"].get("classes", ["object"]))


def axes_of(form: Format) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a NIfTI file as (slice, row, column), and the way back.

    >>> axes_of(Format(1, 1, (32, 32, 32), axis=0))
    ((0, 2, 1), (0, 2, 1))
    """
    order = (form.axis, *reversed([axis for axis in range(3) if axis != form.axis]))
    return order, tuple(np.argsort(order).tolist())


def _template() -> jinja2.Template:
    made = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    made.tests["finite"] = math.isfinite
    made.filters |= {
        "json": json.dumps,
        "cell": lambda value: str(value).replace("|", "/"),
        "options": lambda found: ", ".join(map("%s %s".__mod__, found.items())) or "as by default",
        "mean": _mean,
        "of_site": lambda rows, site: [r for r in rows if site in (r.get("site"), r.get("case"))],
    }
    return made.from_string(Path(__file__).with_name("card.md.j2").read_text("utf-8"))


def _mean(rows: list[Row], name: str) -> str:
    value = mean_of(rows, name)
    return f"{value:.4f}" if math.isfinite(value) else "-"
