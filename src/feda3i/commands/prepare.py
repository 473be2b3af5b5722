"""``feda3i prepare``: bring a data set into the form that training reads. Nothing is downloaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from feda3i.commands.app import AllowUnused, App, Workers, progress_bar
from feda3i.errors import RecipeError
from feda3i.values import split_names

if TYPE_CHECKING:
    from feda3i.prepare.work import Prepared

app = App(help="Convert a data set to the form that training reads. Nothing is downloaded.")

Source = Annotated[Path, typer.Argument(help="Folder or archive as its owner distributes it.")]
Target = Annotated[Path, typer.Argument(help="Folder to write; nothing is written elsewhere.")]
Size = Annotated[int, typer.Option(min=16, max=4096, help="Side of every case in pixels.")]
Aspect = Annotated[
    Literal["squeeze", "crop", "pad"],
    typer.Option(help="Pictures that are not square: squeeze, crop the centre, or pad."),
]
Overwrite = Annotated[bool, typer.Option(help="Replace a set prepared with other options.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the train/test split, where there is none.")]


@app.command()
def isic2017(
    source: Source,
    target: Target,
    size: Size = 256,
    aspect: Aspect = "squeeze",
    test_set: Annotated[
        Literal["test", "validation"], typer.Option(help="Part to test on.")
    ] = "test",
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Prepare ISIC 2017, the paper's SKIN.

    SOURCE holds the publisher's four archives, or their folders; TARGET is the only folder written.
    """
    from feda3i.datasets.isic2017 import prepare_isic2017

    how: dict[str, Any] = {"size": size, "aspect": aspect, "test_set": test_set}
    _run(partial(prepare_isic2017, source, target, **how), workers, overwrite)


@app.command()
def breast(
    source: Source,
    target: Target,
    size: Size = 256,
    aspect: Aspect = "squeeze",
    normals: Annotated[bool, typer.Option(help="Keep BUSI's images without lesion.")] = False,
    seed: Seed = 0,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Prepare BUSI, BUSIS and UDIAT, the paper's BREAST.

    SOURCE holds all three as their publishers send them; TARGET is the only folder written.
    """
    from feda3i.datasets.breast import prepare_breast

    how: dict[str, Any] = {"size": size, "aspect": aspect, "normals": normals, "seed": seed}
    _run(partial(prepare_breast, source, target, **how), workers, overwrite)


@app.command()
def folder(
    source: Source,
    target: Target,
    size: Size = 256,
    aspect: Aspect = "squeeze",
    channels: Annotated[
        int | None, typer.Option(help="1 or 3; default: colour if any image has it.")
    ] = None,
    classes: Annotated[
        str, typer.Option(help="Names of the mask values 1, 2, ..., separated by commas.")
    ] = "",
    per_site: Annotated[
        bool, typer.Option(help="Each folder that holds images and masks is a real site.")
    ] = False,
    allow_unused: AllowUnused = False,
    group: Annotated[
        str | None, typer.Option(help="Pattern for patients: '(?P<group>[^_]+)_.*'.")
    ] = None,
    bits: Annotated[int, typer.Option(help="Bits in use in 16-bit pictures.")] = 16,
    volumes: Annotated[
        bool, typer.Option(help="Keep NIfTI and DICOM volumes whole instead of slicing them.")
    ] = False,
    axis: Annotated[int, typer.Option(help="NIfTI axis along which slices lie.")] = 2,
    window: Annotated[
        str | None, typer.Option(help="Values shown as black and white: 'LOW,HIGH'.")
    ] = None,
    drop_empty: Annotated[
        bool, typer.Option(help="Leave out cases (slices) without foreground.")
    ] = False,
    test_share: Annotated[float, typer.Option(help="Share set aside for testing.")] = 0.2,
    seed: Seed = 0,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Prepare a folder of images and masks in any common layout.

    SOURCE may also be an archive or a CSV table (columns image and mask), or hold NIfTI files or
    DICOM with DICOM-SEG; TARGET is the only folder written.
    """
    from feda3i.prepare.own import prepare_folder
    from feda3i.reading.decode import Options

    options = Options(
        size=size,
        aspect=aspect,
        channels=channels,
        classes=split_names(classes),
        bits=bits,
        keep_empty=not drop_empty,
        volumes=volumes,
        axis=axis,
        window=_window(window),
    )
    call = partial(
        prepare_folder,
        source,
        target,
        options=options,
        per_site=per_site,
        group=group,
        unused="allow" if allow_unused else "error",
        test_share=test_share,
        seed=seed,
    )
    _run(call, workers, overwrite)


def _window(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise RecipeError(f"expected --window as LOW,HIGH, found '{text}'") from None
    return low, high


def _run(work: Callable[..., Prepared], workers: int | None, overwrite: bool) -> None:
    """Show a progress bar and the report; exit code 1 if cases had to be left out."""
    from feda3i.reading.problems import errors_of

    try:
        with progress_bar("prepare") as progress:
            result = work(workers=workers, overwrite=overwrite, progress=progress)
    except KeyboardInterrupt:
        print("\nstopped; repeat the command to continue", file=sys.stderr)
        raise typer.Exit(130) from None
    print(result.text())
    if errors_of(result.problems):
        raise typer.Exit(1)
