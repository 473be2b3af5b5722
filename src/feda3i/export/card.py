"""A model card in the form that Hugging Face and MONAI users know: README.md with a YAML head."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from feda3i import __version__
from feda3i.core.format import Format
from feda3i.engine.results import LoadedRun
from feda3i.engine.scoring import Row, mean_of
from feda3i.engine.validation import read_best
from feda3i.export.snippets import FILES, snippet_of, thing_of
from feda3i.log.events import read_events
from feda3i.simulation.views import card_of

SPLITS = ("test", "validation", "train")


def model_card(run: LoadedRun, kind: str, form: Format, best: bool = False) -> str:
    """Return the card of a run's last or best model, for an export of this kind."""
    manifest, recipe = run.manifest, run.recipe
    data: Mapping[str, Any] = manifest.get("data", {})
    about = read_best(run.path) if best else None
    number = about.round if about else max((e["round"] for e in run.events("round")), default=0)
    scores = _scores(run, number)
    title = recipe.title or run.path.name
    method = card_of(recipe.method.name).splitlines()[0]
    thing, inside = thing_of(form), "Bringing its values to the network's scale"
    if form.patches:
        inside += ", sliding a window over it and blending what overlaps are inside"
    else:
        inside = "Bringing it to the network's size, its values to the network's scale and the "
        inside += "answer back is inside"
    classes = [str(name) for name in data.get("classes", ["object"])]
    parts = [
        _head(title, recipe.method.name, scores),
        f"# {title}\n",
        f"Segmentation of {', '.join(classes)}: the model of round {number} of {recipe.rounds}"
        f"{', the best on the validation cases' if best else ''}. "
        f"{_sites(data)} trained it together with feda3i {manifest.get('feda3i', __version__)}; "
        "images and masks stayed at the sites unless the run was a simulation.\n",
        "## How to use it\n",
        f"{FILES[kind]} takes a {thing} as it is, of any size, and gives the mask at the same "
        f"size: 0 is background, {_named(classes)}. {inside}.\n",
        f"```python\n{snippet_of(kind, form)}\n```\n",
        "## Intended use\n",
        "Research on segmentation and on federated learning with noisy annotations. It is not a "
        "medical device: nobody has tested it for use on patients. Use it on images of the kind "
        "that it was trained on, and look at its masks.\n",
        "## Limits\n",
        *_limits(run, scores),
        "\n## Training\n",
        _table(
            ("", ""),
            [
                ("method", method),
                ("options", _options(recipe.method.options())),
                ("network", f"{recipe.model.name} {_options(recipe.model.options())}"),
                ("annotation noise added", recipe.noise.name),
                ("recipe", f"SHA-256 {str(manifest.get('recipe_sha256', 'unknown'))[:16]}"),
                ("seed", str(recipe.seed)),
                ("data", f"SHA-256 {str(data.get('sha256', 'known to the sites only'))[:32]}"),
                ("test data", f"SHA-256 {str(data.get('test_sha256', 'of the sites'))[:32]}"),
                ("training cases", str(sum(dict(data.get("sites", {})).values()))),
                ("licence of the data", str(dict(data.get("notes", {})).get("licence", "unknown"))),
                ("versions", _options(dict(manifest.get("packages", {})))),
            ],
        ),
        "\n## Scores\n",
        _overall(scores),
        "\nBy site (Dice; of validation and training cases against the masks that are known):\n",
        _by_site(data, scores),
    ]
    return "\n".join(parts)


def _head(title: str, method: str, scores: Mapping[str, Sequence[Row]]) -> str:
    dice = mean_of(scores["test"], "dice")
    results = [
        {
            "task": {"type": "image-segmentation"},
            "dataset": {"name": "test cases of the run", "type": "private"},
            "metrics": [{"type": "dice", "name": "Dice", "value": round(dice, 4)}],
        }
    ]
    head: dict[str, Any] = {
        "library_name": "feda3i",
        "pipeline_tag": "image-segmentation",
        "license": "other",
        "license_name": "not-stated",
        "tags": ["medical", "segmentation", "federated-learning", "feda3i", method],
        "metrics": ["dice"],
    }
    if math.isfinite(dice):
        head["model-index"] = [{"name": title, "results": results}]
    # JSON is YAML, and needs no further library.
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    return "\n".join(["---", *lines, "---", ""])


def _scores(run: LoadedRun, number: int) -> dict[str, list[Row]]:
    """Return the rows of each split: of this round where it was scored, else of the last time."""
    found: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for event in read_events(run.path / "events.jsonl", "score"):
        if event["split"] in found and (event["round"] <= number or not found[event["split"]]):
            found[event["split"]] = event["rows"]
    return found


def _limits(run: LoadedRun, scores: Mapping[str, Sequence[Row]]) -> list[str]:
    size = run.recipe.data.options().get("size")
    lines = [
        "- It knows only what its sites showed it; scanners, patients and annotators elsewhere "
        "differ.",
        "- Its masks follow the habits of those who drew the training masks.",
    ]
    if size:
        lines.append(f"- It sees pictures at {size} px a side: finer detail is lost.")
    if not scores["test"]:
        lines.append("- It was never scored on test cases.")
    notes = (e["text"] for e in run.events("note") if e.get("is_result"))
    return [*lines, *(f"- The run noted: {note}." for note in notes)]


def _overall(scores: Mapping[str, Sequence[Row]]) -> str:
    names = ("dice", "iou", "hd95", "assd")
    rows = [
        (split, str(len(rows)), *(_number(mean_of(rows, name)) for name in names))
        for split, rows in scores.items()
        if rows
    ]
    return _table(("split", "rows", *names), rows)


def _by_site(data: Mapping[str, Any], scores: Mapping[str, Sequence[Row]]) -> str:
    cases: Mapping[str, int] = dict(data.get("sites", {}))
    rows = []
    for site in sorted(cases):
        own = [
            [r for r in scores[split] if site in (r.get("site"), r.get("case"))] for split in SPLITS
        ]
        rows.append((site, str(cases[site]), *(_number(mean_of(part, "dice")) for part in own)))
    return _table(("site", "training cases", *SPLITS), rows)


def _sites(data: Mapping[str, Any]) -> str:
    count = len(dict(data.get("sites", {})))
    return "One site" if count == 1 else f"{count} sites"


def _named(classes: Sequence[str]) -> str:
    return ", ".join(f"{k} is {name}" for k, name in enumerate(classes, start=1))


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items()) or "as by default"


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "/") for c in row) + " |" for row in cells)
