"""A model card as on Hugging Face and in MONAI: README.md with a YAML head."""

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
from feda3i.simulation.views import card_of

Scores = Mapping[str, Sequence[Row]]

SPLITS = ("test", "validation", "train")
_BUNDLE = """from monai.bundle import run
run(config_file="configs/inference.json", meta_file="configs/metadata.json",
    bundle_root=".", dataset_dir="images", output_dir="masks")"""
_USE = """Research on segmentation and on federated learning with noisy annotations. It is not a \
medical device: nobody has tested it for use on patients. Use it on images of the kind that it was \
trained on, and look at its masks.
"""


def model_card(run: LoadedRun, kind: str, form: Format, best: bool = False) -> str:
    """Return the card of a run's last or best model, for an export of this kind."""
    manifest, recipe = run.manifest, run.recipe
    data: Mapping[str, Any] = manifest.get("data", {})
    sites: Mapping[str, int] = dict(data.get("sites", {}))
    about = read_best(run.path) if best else None
    number = about.round if about else max((e["round"] for e in run.events("round")), default=0)
    scores = _scores(run, number)
    title, classes = recipe.title or run.path.name, classes_of(run)
    chosen = ", the best on the validation cases" if best else ""
    named = ", ".join(f"{k} is {name}" for k, name in enumerate(classes, start=1))
    inside = "it to the network's size, its values to the network's scale and the answer back is"
    if form.patches:
        inside = "its values to the network's scale, sliding a window over it and blending what "
        inside += "overlaps are"
    facts = [
        ("method", card_of(recipe.method.name).splitlines()[0]),
        ("options", _options(recipe.method.options())),
        ("network", f"{recipe.model.name} {_options(recipe.model.options())}"),
        ("annotation noise added", recipe.noise.name),
        ("recipe", f"SHA-256 {str(manifest.get('recipe_sha256', 'unknown'))[:16]}"),
        ("seed", str(recipe.seed)),
        ("data", f"SHA-256 {str(data.get('sha256', 'known to the sites only'))[:32]}"),
        ("test data", f"SHA-256 {str(data.get('test_sha256', 'of the sites'))[:32]}"),
        ("training cases", str(sum(sites.values()))),
        ("licence of the data", str(dict(data.get("notes", {})).get("licence", "unknown"))),
        ("versions", _options(dict(manifest.get("packages", {})))),
    ]
    parts = [
        _head(title, recipe.method.name, mean_of(scores["test"], "dice")),
        f"# {title}\n",
        f"Segmentation of {', '.join(classes)}: the model of round {number} of {recipe.rounds}"
        f"{chosen}. {'One site' if len(sites) == 1 else f'{len(sites)} sites'} trained it together "
        f"with feda3i {manifest.get('feda3i', __version__)}; images and masks stayed at the sites "
        "unless the run was a simulation.\n",
        "## How to use it\n",
        f"{'model.onnx' if kind == 'onnx' else 'the folder'} takes a {_thing(form)} as it is, of "
        f"any size, and gives the mask at the same size: 0 is background, {named}. Bringing "
        f"{inside} inside.\n",
        f"```python\n{_BUNDLE if kind == 'monai-bundle' else onnx_snippet(form)}\n```\n",
        f"## Intended use\n\n{_USE}",
        "## Limits\n",
        *_limits(run, scores),
        "\n## Training\n",
        _table(("", ""), facts),
        "\n## Scores\n",
        _overall(scores),
        "\nBy site (Dice; of validation and training cases against the masks that are known):\n",
        _by_site(sites, scores),
    ]
    return "\n".join(parts)


def classes_of(run: LoadedRun) -> list[str]:
    """Return the names of the foreground classes."""
    return [str(name) for name in run.manifest.get("data", {}).get("classes", ["object"])]


def _head(title: str, method: str, dice: float) -> str:
    head: dict[str, Any] = {
        "library_name": "feda3i",
        "pipeline_tag": "image-segmentation",
        "license": "other",
        "license_name": "not-stated",
        "tags": ["medical", "segmentation", "federated-learning", "feda3i", method],
        "metrics": ["dice"],
    }
    if math.isfinite(dice):
        result = {
            "task": {"type": "image-segmentation"},
            "dataset": {"name": "test cases of the run", "type": "private"},
            "metrics": [{"type": "dice", "name": "Dice", "value": round(dice, 4)}],
        }
        head["model-index"] = [{"name": title, "results": [result]}]
    # JSON is YAML, and needs no further library.
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    return "\n".join(["---", *lines, "---", ""])


def _scores(run: LoadedRun, number: int) -> dict[str, list[Row]]:
    """Return the rows of each split: of this round where it was scored, else of the last time."""
    found: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for event in run.events("score"):
        if event["split"] in found and (event["round"] <= number or not found[event["split"]]):
            found[event["split"]] = event["rows"]
    return found


def _limits(run: LoadedRun, scores: Scores) -> list[str]:
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


def _overall(scores: Scores) -> str:
    names = ("dice", "iou", "hd95", "assd")
    rows = [
        (split, str(len(rows)), *(_number(mean_of(rows, name)) for name in names))
        for split, rows in scores.items()
        if rows
    ]
    return _table(("split", "rows", *names), rows)


def _by_site(sites: Mapping[str, int], scores: Scores) -> str:
    rows = []
    for site, cases in sorted(sites.items()):
        own = ([r for r in scores[s] if site in (r.get("site"), r.get("case"))] for s in SPLITS)
        rows.append((site, str(cases), *(_number(mean_of(part, "dice")) for part in own)))
    return _table(("site", "training cases", *SPLITS), rows)


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items()) or "as by default"


def _number(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "/") for c in row) + " |" for row in cells)


def _thing(form: Format) -> str:
    if form.dimensions == 3:
        return "volume"
    return "picture" if form.volumes is None else "slice of a volume"


def axes_of(form: Format) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a NIfTI file as (slice, row, column), and the way back.

    >>> axes_of(Format(1, 1, (32, 32, 32), axis=0))
    ((0, 2, 1), (0, 2, 1))
    """
    order = (form.axis, *reversed([axis for axis in range(3) if axis != form.axis]))
    return order, tuple(int(axis) for axis in np.argsort(order))


def onnx_snippet(form: Format) -> str:
    """Return lines of Python that read an image and ask ``model.onnx`` for its mask."""
    reader = "from PIL import Image" if form.volumes is None else "import SimpleITK as sitk"
    start = ["import numpy as np", "import onnxruntime", reader]
    start.append('session = onnxruntime.InferenceSession("model.onnx")')
    return "\n".join(start + (_picture(form) if form.volumes is None else _volume(form)))


def _picture(form: Format) -> list[str]:
    mode, expand = ("RGB", "") if form.channels == 3 else ("L", "[..., None]")
    cast = "" if takes_bytes(form) else ".astype(np.float32)"
    opened = f'np.array(Image.open("image.png").convert("{mode}"))'
    return [
        f"image = {opened}{expand}.transpose(2, 0, 1){cast}",
        'mask = session.run(["mask"], {"image": image})[0]',
    ]


def _volume(form: Format) -> list[str]:
    # SimpleITK's arrays have the axes of a file in reverse.
    order = tuple(2 - axis for axis in axes_of(form)[0])
    back = tuple(int(axis) for axis in np.argsort(order))
    many = f".repeat({form.channels}, axis=0)" if form.channels > 1 else ""
    answer = 'session.run(["mask"], {"image": image})[0]'
    if form.dimensions == 2:
        one = answer.replace("image}", "image[:, k]}")
        answer = f"np.stack([{one} for k in range(image.shape[1])])"
    scale = ["# scale the values to bytes as in training first"] if takes_bytes(form) else []
    return [
        'file = sitk.ReadImage("image.nii.gz")',
        "values = sitk.GetArrayFromImage(file).astype(np.float32)",
        *scale,
        f"image = values.transpose{order}[None]{many}  # channel, slice, row, column",
        f"mask = {answer}",
        f"written = sitk.GetImageFromArray(mask.transpose{back})",
        "written.CopyInformation(file)",
        'sitk.WriteImage(written, "mask.nii.gz")',
    ]
