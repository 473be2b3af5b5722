"""``feda3i predict``: masks for new images at their own resolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.commands.app import BestModel, TrustCode
from feda3i.errors import DataError, RecipeError
from feda3i.reading.names import DICOM, PICTURES, VOLUMES, split_extension

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from feda3i.core.predictor import Predictor


def predict(
    folder: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")],
    images: Annotated[Path, typer.Argument(help="An image or a folder of images.")],
    out: Annotated[Path, typer.Option(help="Folder for the masks.")],
    overlay: Annotated[bool, typer.Option(help="Also draw the contour on each picture.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing masks.")] = False,
    best: BestModel = False,
    trust_code: TrustCode = False,
) -> None:
    """Write masks for new images, at their own resolution; of volumes NIfTI, where each lies."""
    from rich.progress import track

    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.transport import one_thread

    with one_thread():
        predictor = open_predictor(folder, trust_code=trust_code, best=best)
    form, are_pictures = predictor.format, predictor.format.volumes is None
    if are_pictures and form.dimensions != 2:
        raise DataError(
            "this model was trained on volumes that were no files, and predict cannot tell how; "
            "train with data.volumes=whole to predict NIfTI files"
        )
    if overlay and not are_pictures:
        raise RecipeError("--overlay draws on pictures: look at masks of volumes in a viewer")
    files, problems = image_files(images, PICTURES if are_pictures else (*VOLUMES, *DICOM))
    endings = (".png" if are_pictures else ".nii.gz", *(["_overlay.png"] if overlay else []))
    stems = [out / split_extension(file.name)[0] for file in files]
    targets = [Path(f"{stem}{ending}") for stem in stems for ending in endings]
    check_targets(out, files, targets, overwrite)
    done = 0
    with one_thread():
        out.mkdir(parents=True, exist_ok=True)
        pairs = list(zip(files, stems, strict=True))
        for file, stem in track(pairs, description="predict", transient=True):
            try:
                if are_pictures:
                    predict_picture(predictor, file, stem, overlay)
                else:
                    predict_volume(predictor, file, stem)
                done += 1
            except DataError as error:
                problems.append(f"{file}: {error}")
    print(f"{done} masks in {out}")
    if problems:
        raise DataError(f"{len(problems)} images were left out:\n  " + "\n  ".join(problems))


def image_files(path: Path, endings: tuple[str, ...]) -> tuple[list[Path], list[str]]:
    """Return the images at a path, sorted, and what has an image's name but is not a file."""

    def is_series(folder: Path) -> bool:  # of DICOM slices, where volumes are looked for
        slices = tuple(ending for ending in endings if ending in DICOM)
        return folder.is_dir() and any(f.name.lower().endswith(slices) for f in folder.iterdir())

    named = [path]
    if path.is_dir() and not is_series(path):
        named = [f for f in path.iterdir() if f.name.lower().endswith(endings) or is_series(f)]
    # Reading a pipe or a device would wait for ever.
    files = sorted(file for file in named if file.is_file() or is_series(file))
    problems = [f"{file}: expected a file, found none" for file in named if file not in files]
    if not files:
        what = "\n  ".join(problems) or f"'{path}' holds none ({', '.join(endings)})"
        raise DataError(f"expected an image or a folder of images; {what}")
    return files, problems


def check_targets(
    out: Path, sources: Sequence[Path], targets: Sequence[Path], overwrite: bool
) -> None:
    """Raise ``DataError`` before anything is written if a file of the user's would be lost.

    Images are never replaced; other files only with ``overwrite``.
    """
    count = Counter(target.name.casefold() for target in targets)
    if twice := [name for name, times in count.items() if times > 1]:
        raise DataError(f"the masks of two images would be called {twice[0]}: rename one image")
    images = {source.resolve() for source in sources}
    found = [target for target in targets if target.exists() or target.is_symlink()]
    is_theirs = out.is_dir() and any(out.samefile(source.parent) for source in sources)
    if is_theirs or any(target.resolve() in images for target in found):
        raise DataError(f"'{out}' holds the images themselves: choose another folder for the masks")
    if found and not overwrite:
        raise DataError(f"'{found[0]}' already exists: choose another folder, or add --overwrite")


def predict_picture(predictor: Predictor, file: Path, stem: Path, overlay: bool) -> None:
    """Write ``STEM.png``, in the geometry of the stored picture, and ``STEM_overlay.png``."""
    from feda3i.core.normalise import byte_picture
    from feda3i.files import write_png
    from feda3i.reading.file_list import read_file
    from feda3i.reading.picture import as_stored, orientation_of, read_image

    form, data = predictor.format, read_file(file)
    picture = read_image(data, channels=form.channels, keep=form.keeps_values).pixels
    mask = predictor.picture(picture)
    shown = mask * 255 if form.classes == 1 else mask  # else the numbers of classes
    write_png(Path(f"{stem}.png"), as_stored(shown, orientation_of(data)))
    if overlay:
        pixels = byte_picture(picture, form.normalise)
        write_overlay(Path(f"{stem}_overlay.png"), pixels, mask)


def write_overlay(path: Path, picture: NDArray[np.uint8], mask: NDArray[np.uint8]) -> None:
    """Write the picture with the contour of the mask in red, on black where the picture is red."""
    import cv2
    import numpy as np

    from feda3i.files import write_png

    canvas = np.broadcast_to(picture, (*picture.shape[:2], 3)).copy()
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    thick = max(1, round(min(mask.shape) / 256))
    drawn = cv2.drawContours(canvas, found, -1, (0, 0, 0), thick + 2)
    write_png(path, np.asarray(cv2.drawContours(drawn, found, -1, (255, 0, 0), thick)))


def predict_volume(predictor: Predictor, file: Path, stem: Path) -> None:
    """Write ``STEM.nii.gz`` with the values 0..C; a folder is a series of DICOM slices."""
    import numpy as np

    from feda3i.files import write_file
    from feda3i.reading.picture import as_kept
    from feda3i.reading.volume import check_spacing, read_volume, window_to_bytes, write_like

    form = predictor.format
    places = [str(file)]
    if file.is_dir():
        places = [str(f) for f in sorted(file.iterdir()) if split_extension(f.name)[1] in DICOM]
    volume = read_volume(places, form.axis)
    spacing = volume.spacing or (1.0,) * 3  # DICOM need not say
    check_spacing(spacing)
    if form.channels not in (1, 3):
        raise DataError(f"the model takes {form.channels} files per case; predict takes one")
    kept = as_kept(volume.values) if form.keeps_values else window_to_bytes(volume.values)
    pixels = np.repeat(kept[..., None], form.channels, axis=-1)
    if form.dimensions == 3:
        mask = predictor.picture(pixels, spacing)
    else:
        mask = np.stack([predictor.picture(plane, spacing[1:]) for plane in pixels])
    made = write_like(volume, mask, form.axis)
    write_file(Path(f"{stem}.nii.gz"), made, mode=0o600)
