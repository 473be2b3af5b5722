"""``feda3i noise``: draw annotation noise on masks, look at it, test its properties."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from feda3i.commands.app import App, Workers, progress_bar
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.simulation.noisy_folders import NoisyFolder

app = App(help="Draw annotation noise on masks, look at it, test its properties.")

Seed = Annotated[int, typer.Option(min=0, help="Same seed, same noise.")]
Name = Annotated[
    str,
    typer.Option(help="contour, levelset, flip, morphology, markov or file.py:Name."),
]
Choices = Annotated[
    list[str] | None, typer.Option("--option", help="Option of the model, e.g. mode=faithful.")
]
Classes = Annotated[int, typer.Option(min=1, max=255, help="Foreground classes in the masks.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")]


@app.command()
def apply(
    masks: Annotated[Path, typer.Argument(help="Folder of masks (or one mask): PNG, ..., NPY.")],
    out: Annotated[Path, typer.Argument(help="Folder for the noisy masks and noise.csv.")],
    mu: Annotated[float, typer.Option(help="Mean distance in pixels; positive is outside.")],
    sigma: Annotated[float, typer.Option(help="Standard deviation in pixels.")],
    seed: Seed = 0,
    noise: Name = "contour",
    option: Choices = None,
    site: Annotated[str, typer.Option(help="Name of the site; other names give other noise.")] = "",
    relative: Annotated[
        bool, typer.Option(help="mu and sigma are meant at 256 px and scale with the mask.")
    ] = False,
    classes: Classes = 1,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option(help="Write into a folder with files.")] = False,
    quiet: Quiet = False,
) -> None:
    """Draw noisy versions of a folder of masks, with Dice and area ratio of each in a CSV."""
    from feda3i.noise.model import Annotator
    from feda3i.simulation.noisy_folders import Drawing, apply_to_folder

    drawing = Drawing(noise, _options(option), seed, classes, relative)
    with progress_bar("noise", quiet) as progress:
        report = apply_to_folder(
            masks,
            out,
            Annotator(mu, sigma),
            drawing,
            site=site,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
        )
    _finish(report, f"noisy masks and noise.csv in {out}", quiet)


@app.command()
def federate(
    source: Annotated[Path, typer.Argument(help="Folder with images/ and masks/, or prepared.")],
    out: Annotated[Path, typer.Argument(help="Folder to make: one folder per site.")],
    setting: Annotated[
        str, typer.Option(help="skin-ns, skin-ne, breast-ns or breast-ne of the paper.")
    ],
    sites: Annotated[int, typer.Option(min=1, help="Number of sites.")],
    seed: Seed = 0,
    noise: Name = "contour",
    option: Choices = None,
    draw: Annotated[
        Literal["exact", "bernoulli", "published"],
        typer.Option(help="How many sites expand: p_d n, or drawn; or the authors' own."),
    ] = "exact",
    test_share: Annotated[
        float, typer.Option(min=0, max=0.9, help="Clean cases set aside, if none are given.")
    ] = 0.2,
    classes: Classes = 1,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Divide a data set among sites, each with masks drawn by an annotator of its own."""
    from feda3i.noise.annotators import get_setting
    from feda3i.simulation.noisy_folders import Drawing, federate_folder

    drawing = Drawing(noise, _options(option), seed, classes, is_relative=True)
    with progress_bar("noise", quiet) as progress:
        report = federate_folder(
            source,
            out,
            get_setting(setting),
            sites,
            drawing,
            assignment=draw,
            test_share=test_share,
            workers=workers,
            progress=progress,
        )
    _finish(report, f"{sites} sites, annotators.csv and cases.csv in {out}", quiet)


@app.command()
def gallery(
    out: Annotated[Path, typer.Option(help="Picture to write.")] = Path("noise_gallery.png"),
    image: Annotated[list[Path] | None, typer.Option(help="Image; repeat with --mask.")] = None,
    mask: Annotated[list[Path] | None, typer.Option(help="Mask of each image.")] = None,
    seed: Seed = 8,
    mode: Annotated[Literal["robust", "faithful"], typer.Option(help="Of the model.")] = "robust",
    quiet: Quiet = False,
) -> None:
    """Draw the paper's six contour evolution models over images, and the bias along the contour."""
    from feda3i.simulation.mask_files import read_image_file, read_mask_file
    from feda3i.simulation.noise_figure import built_in_cases, draw_gallery

    images, masks = image or [], mask or []
    if len(images) != len(masks):
        raise RecipeError(
            f"expected one --mask per --image, found {len(images)} images, {len(masks)} masks"
        )
    cases = [
        (read_image_file(i), read_mask_file(m)) for i, m in zip(images, masks, strict=True)
    ] or built_in_cases(seed)
    draw_gallery(out, cases, seed, mode=mode)
    if not quiet:
        print(out)


@app.command()
def pdn(
    draws: Annotated[int, typer.Option(min=10, help="Noisy masks per model.")] = 250,
    radius: Annotated[float, typer.Option(min=5, max=100, help="Of the shape, pixels.")] = 40.0,
    shape: Annotated[
        Literal["disc", "ellipse", "lobes"], typer.Option(help="Clean object to draw.")
    ] = "disc",
    seed: Seed = 0,
    csv: Annotated[Path | None, typer.Option(help="Also write the table here.")] = None,
    quiet: Quiet = False,
) -> None:
    """Test which noise models are pixel-dependent (Definition 1 of the paper)."""
    from feda3i.noise.pdn_table import dependence_rows, dependence_text
    from feda3i.simulation.mask_files import write_table

    with progress_bar("pdn", quiet) as progress:
        rows = dependence_rows(draws, radius, seed, shape, progress)
    if csv is not None:
        write_table(csv, rows)
    print(dependence_text(rows))


def _options(texts: list[str] | None) -> dict[str, Any]:
    """Return ``key=value`` texts as a dictionary, with values as in a recipe."""
    from feda3i.recipe.loading import parse_value

    options: dict[str, Any] = {}
    for text in texts or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise RecipeError(f"expected --option key=value, found '{text}'")
        options[key] = parse_value(value)
    return options


def _finish(report: NoisyFolder, text: str, quiet: bool) -> None:
    """Say what was done; exit code 1 if files had to be left out."""
    import numpy as np

    for problem in report.problems:
        print(f"left out: {problem}", file=sys.stderr)
    if report.table and not quiet:
        dice = float(np.mean([row.dice for row in report.table]))
        ratio = float(np.nanmean([row.area_ratio for row in report.table]))
        print(f"{text}: {len(report.table)} cases, Dice {dice:.3f}, area ratio {ratio:.3f}")
    if report.problems:
        raise typer.Exit(1)
