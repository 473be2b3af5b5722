"""``feda3i noise``: draw annotation noise on masks, look at it, test its properties."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from feda3i.commands.app import Quiet, new_app
from feda3i.errors import RecipeError

app = new_app(help="Draw annotation noise on masks, look at it, test its properties.")

Seed = Annotated[int, typer.Option(min=0, help="Same seed, same noise.")]


@app.command()
def apply(
    masks: Annotated[Path, typer.Argument(help="Folder of masks (or one mask): PNG, ..., NPY.")],
    out: Annotated[Path, typer.Argument(help="Folder for the noisy masks and noise.csv.")],
    mu: Annotated[float, typer.Option(help="Mean distance in pixels; positive is outside.")],
    sigma: Annotated[float, typer.Option(help="Standard deviation in pixels.")],
    seed: Seed = 0,
    noise: Annotated[
        str, typer.Option(help="contour, levelset, flip, morphology, markov or file.py:Name.")
    ] = "contour",
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the model, e.g. mode=faithful.")
    ] = None,
    site: Annotated[str, typer.Option(help="Name of the site; other names give other noise.")] = "",
    relative: Annotated[
        bool, typer.Option(help="mu and sigma are meant at 256 px and scale with the mask.")
    ] = False,
    classes: Annotated[int, typer.Option(min=1, max=255, help="Foreground classes.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Draw noisy versions of a folder of masks, with Dice and area ratio of each in a CSV."""
    import numpy as np

    from feda3i.noise.model import Annotator
    from feda3i.simulation.noisy_files import apply_to_folder

    rows, problems = apply_to_folder(
        masks,
        out,
        Annotator(mu, sigma),
        noise,
        _options(option),
        seed=seed,
        site=site,
        classes=classes,
        is_relative=relative,
    )
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    if rows and not quiet:
        dice = float(np.mean([row.dice for row in rows]))
        ratio = float(np.nanmean([row.area_ratio for row in rows]))
        told = f"{len(rows)} cases, Dice {dice:.3f}, area ratio {ratio:.3f}"
        print(f"noisy masks and noise.csv in {out}: {told}")
    if problems:
        raise typer.Exit(1)


@app.command()
def gallery(
    out: Annotated[Path, typer.Option(help="Picture to write.")] = Path("noise_gallery.png"),
    seed: Seed = 8,
) -> None:
    """Draw the paper's six contour evolution models over images, and the bias along the contour."""
    from feda3i.simulation.noise_figure import draw_gallery

    draw_gallery(out, seed)
    print(out)


@app.command()
def pdn(
    draws: Annotated[int, typer.Option(min=10, help="Noisy masks per model.")] = 250,
    radius: Annotated[int, typer.Option(min=5, max=100, help="Of the disc, pixels.")] = 40,
    seed: Seed = 0,
) -> None:
    """Test which noise models are pixel-dependent (Definition 1 of the paper)."""
    from feda3i.noise.pdn import dependence_table

    print(dependence_table(draws, radius, seed))


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
