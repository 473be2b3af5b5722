"""A model card in the form that Hugging Face and MONAI users know: README.md with a YAML head."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from feda3i import __version__
from feda3i.core.format import Format
from feda3i.engine.results import LoadedRun
from feda3i.engine.scoring import Row, mean_of
from feda3i.engine.validation import read_best
from feda3i.export.arithmetic import takes_bytes
from feda3i.log.events import read_events
from feda3i.simulation.views import card_of

SPLITS = ("test", "validation", "train")
FILES = {
    "onnx": "model.onnx",
    "torchscript": "model.ts",
    "torch-export": "model.pt2",
    "monai-bundle": "the folder",
}
_ASK = "model(torch.from_numpy({0})).numpy()"
_LOAD = {
    "onnx": (
        "onnxruntime",
        'session = onnxruntime.InferenceSession("model.onnx")',
        'session.run(["mask"], {{"image": {0}}})[0]',
    ),
    "torchscript": ("torch", 'model = torch.jit.load("model.ts")', _ASK),
    "torch-export": ("torch", 'model = torch.export.load("model.pt2").module()', _ASK),
}
_BUNDLE = """from monai.bundle import run
run(config_file="configs/inference.json", meta_file="configs/metadata.json",
    bundle_root=".", dataset_dir="images", output_dir="masks")"""


def model_card(run: LoadedRun, kind: str, form: Format, best: bool = False) -> str:
    """Return the card of a run's last or best model, for an export of this kind."""
    manifest, recipe = run.manifest, run.recipe
    data: Mapping[str, Any] = manifest.get("data", {})
    about = read_best(run.path) if best else None
    number = about.round if about else max((e["round"] for e in run.events("round")), default=0)
    scores = _scores(run, number)
    title = recipe.title or run.path.name
    method = card_of(recipe.method.name).splitlines()[0]
    inside = "it to the network's size, its values to the network's scale and the answer back is"
    if form.patches:
        inside = "its values to the network's scale, sliding a window over it and blending what "
        inside += "overlaps are"
    classes = [str(name) for name in data.get("classes", ["object"])]
    parts = [
        _head(title, recipe.method.name, scores),
        f"# {title}\n",
        f"Segmentation of {', '.join(classes)}: the model of round {number} of {recipe.rounds}"
        f"{', the best on the validation cases' if best else ''}. "
        f"{_sites(data)} trained it together with feda3i {manifest.get('feda3i', __version__)}; "
        "images and masks stayed at the sites unless the run was a simulation.\n",
        "## How to use it\n",
        f"{FILES[kind]} takes a {thing_of(form)} as it is, of any size, and gives the mask at the "
        f"same size: 0 is background, {_named(classes)}. Bringing {inside} inside.\n",
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


# -- how an exported model is asked, without feda3i ------------------------------------------------


def axes_of(form: Format) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a NIfTI file as (slice, row, column), and the way back.

    >>> axes_of(Format(1, 1, (32, 32, 32), axis=0))
    ((0, 2, 1), (0, 2, 1))
    """
    order = (form.axis, *reversed([axis for axis in range(3) if axis != form.axis]))
    return order, tuple(int(axis) for axis in np.argsort(order))


def thing_of(form: Format) -> str:
    """Return what a graph takes: a picture, a volume, or a slice of one."""
    if form.dimensions == 3:
        return "volume"
    return "picture" if form.volumes is None else "slice of a volume"


def snippet_of(kind: str, form: Format) -> str:
    """Return the lines that read one image, ask an export of this kind and have its mask."""
    if kind == "monai-bundle":
        return _BUNDLE
    package, load, ask = _LOAD[kind]
    lines = _volume(form, ask) if form.volumes else _picture(form, ask)
    reader = "import nibabel" if form.volumes else "from PIL import Image"
    return "\n".join(["import numpy as np", f"import {package}", reader, load, *lines])


def _picture(form: Format, ask: str) -> list[str]:
    mode, expand = ("RGB", "") if form.channels == 3 else ("L", "[..., None]")
    cast = "" if takes_bytes(form) else ".astype(np.float32)"
    opened = f'np.array(Image.open("image.png").convert("{mode}"))'
    return [
        f"image = {opened}{expand}.transpose(2, 0, 1){cast}",
        f"mask = {ask.format('image')}",
    ]


def _volume(form: Format, ask: str) -> list[str]:
    order, back = axes_of(form)
    many = f".repeat({form.channels}, axis=0)" if form.channels > 1 else ""
    answer = ask.format("image")
    if form.dimensions == 2:
        answer = f"np.stack([{ask.format('image[:, k]')} for k in range(image.shape[1])])"
    bytes_first = ["# scale the values to bytes as in training first"] if takes_bytes(form) else []
    return [
        'file = nibabel.load("image.nii.gz")',
        "values = file.get_fdata(dtype=np.float32)",
        *bytes_first,
        f"image = values.transpose{order}[None]{many}  # channel, slice, row, column",
        f"mask = {answer}",
        f'nibabel.Nifti1Image(mask.transpose{back}, file.affine).to_filename("mask.nii.gz")',
    ]
