"""A few lines of Python for the model card: how an exported model is asked, without feda3i."""

from __future__ import annotations

import numpy as np

from feda3i.core.format import Format
from feda3i.export.arithmetic import takes_bytes

FILES = {
    "onnx": "model.onnx",
    "torchscript": "model.ts",
    "torch-export": "model.pt2",
    "monai-bundle": "the folder",
}
_LOAD = {
    "onnx": (
        "onnxruntime",
        'session = onnxruntime.InferenceSession("model.onnx")',
        'session.run(["mask"], {{"image": {0}}})[0]',
    ),
    "torchscript": (
        "torch",
        'model = torch.jit.load("model.ts")',
        "model(torch.from_numpy({0})).numpy()",
    ),
    "torch-export": (
        "torch",
        'model = torch.export.load("model.pt2").module()',
        "model(torch.from_numpy({0})).numpy()",
    ),
}
_BUNDLE = """from monai.bundle import run
run(config_file="configs/inference.json", meta_file="configs/metadata.json",
    bundle_root=".", dataset_dir="images", output_dir="masks")"""


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
