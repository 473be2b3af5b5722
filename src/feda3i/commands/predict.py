"""``feda3i predict``: masks for new images at their own resolution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feda3i.commands.app import BestModel, TrustCode
from feda3i.errors import DataError
from feda3i.reading.names import DICOM, VOLUMES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from feda3i.core.format import Format
    from feda3i.core.predictor import Predictor

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


def predict(
    folder: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")],
    images: Annotated[Path, typer.Argument(help="An image or a folder of images.")],
    out: Annotated[Path, typer.Option(help="Folder for the masks.")],
    overlay: Annotated[bool, typer.Option(help="Also draw the contour on each image.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing masks.")] = False,
    best: BestModel = False,
    trust_code: TrustCode = False,
) -> None:
    """Write masks for new images, at their own resolution; of volumes NIfTI, where each lies."""
    from rich.progress import track

    from feda3i.commands.outputs import check_targets, output_names
    from feda3i.commands.predict_volumes import predict_volume
    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.transport import one_thread

    with one_thread():
        predictor = open_predictor(folder, trust_code=trust_code, best=best)
    form = predictor.format
    if form.volumes is None and form.dimensions != 2:
        raise DataError(
            "this model was trained on volumes that version 0.1 prepared, and predict cannot tell "
            "how; train with data.volumes=whole to predict NIfTI files"
        )
    kind = ".png" if form.volumes is None else ".nii.gz"
    files, problems = image_files(images, ENDINGS if form.volumes is None else (*VOLUMES, *DICOM))
    endings = (kind, "_overlay.png") if overlay else (kind,)
    stems = output_names([file.name for file in files], endings)
    check_targets(
        out, files, [out / f"{s}{ending}" for s in stems for ending in endings], overwrite
    )
    done = 0
    with one_thread():
        out.mkdir(parents=True, exist_ok=True)
        pairs = list(zip(files, stems, strict=True))
        for file, stem in track(pairs, description="predict", transient=True):
            try:
                if form.volumes is None:
                    _predict_picture(predictor, file, out / stem, overlay)
                else:
                    predict_volume(predictor, file, out / stem, overlay)
            except DataError as error:
                problems.append(str(error))
                continue
            done += 1
    print(f"{done} masks in {out}")
    if problems:
        raise DataError(f"{len(problems)} images were left out:\n  " + "\n  ".join(problems))


def _predict_picture(predictor: Predictor, file: Path, stem: Path, overlay: bool) -> None:
    from feda3i.core.normalise import byte_picture
    from feda3i.files import write_png
    from feda3i.reading.file_list import read_file
    from feda3i.reading.picture import as_stored, orientation_of

    picture = read_picture(file, predictor.format)
    mask = predictor.picture(picture)
    shown = mask * 255 if predictor.format.classes == 1 else mask  # else the numbers of classes
    stored = as_stored(shown, orientation_of(read_file(file)))
    write_png(stem.with_name(f"{stem.name}.png"), stored)
    if overlay:
        pixels = byte_picture(picture, predictor.format.normalise)
        write_overlay(stem.with_name(f"{stem.name}_overlay.png"), pixels, mask)


def image_files(path: Path, endings: tuple[str, ...]) -> tuple[list[Path], list[str]]:
    """Return the images at a path, sorted, and what has an image's name but is not a file."""
    if path.is_dir() and not _is_series(path, endings):
        named = sorted(
            f for f in path.iterdir() if f.name.lower().endswith(endings) or _is_series(f, endings)
        )
        if not named:
            raise DataError(f"'{path}' holds no image ({', '.join(endings)})")
    else:
        named = [path]
    # Reading a pipe or a device would wait for ever.
    files = [file for file in named if file.is_file() or _is_series(file, endings)]
    problems = [f"{f}: expected a file, found {_what(f)}" for f in named if f not in files]
    if not files:
        raise DataError("expected an image or a folder of images; " + "\n  ".join(problems))
    return files, problems


def _is_series(path: Path, endings: tuple[str, ...]) -> bool:
    """Return whether a path is a folder of DICOM slices, where volumes are looked for."""
    wanted = tuple(ending for ending in endings if ending in DICOM)
    return path.is_dir() and any(f.name.lower().endswith(wanted) for f in path.iterdir() if wanted)


def _what(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    if path.exists():
        return "a pipe or a device"
    return "a link to nothing" if path.is_symlink() else "nothing"


def read_picture(path: Path, form: Format) -> NDArray[Any]:
    """Return a picture as ``(row, column, channel)``, upright."""
    from feda3i.reading.file_list import read_file
    from feda3i.reading.picture import read_image

    try:
        pixels: NDArray[Any] = read_image(
            read_file(path), channels=form.channels, keep=form.keeps_values
        ).pixels
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return pixels


def write_overlay(path: Path, picture: NDArray[np.uint8], mask: NDArray[np.uint8]) -> None:
    """Write the picture with the contour of the mask in red, on black where the picture is red."""
    import cv2
    import numpy as np

    from feda3i.files import write_png

    canvas = np.ascontiguousarray(np.broadcast_to(picture, (*picture.shape[:2], 3)))
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    thick = max(1, round(min(mask.shape) / 256))
    drawn = cv2.drawContours(canvas.copy(), found, -1, (0, 0, 0), thick + 2)
    write_png(path, np.asarray(cv2.drawContours(drawn, found, -1, (255, 0, 0), thick)))
