"""The command line: each command is a few lines that call the library.

Heavy libraries are imported by the commands that need them, so that ``feda3i --help`` is fast.
Exit codes: 0 fine, 1 failure, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from feda3i import __version__
from feda3i.commands import complete, deploy, noise, prepare
from feda3i.commands.app import App
from feda3i.errors import RecipeError

app = App(
    name="feda3i",
    pretty_exceptions_enable=False,
)

app.add_typer(prepare.app, name="prepare")
app.add_typer(noise.app, name="noise")
app.add_typer(deploy.app, name="deploy")

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changes to the recipe, e.g. rounds=3 method=fedavg.")
]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Load the plug-ins that the file names: they run as you."),
]
AllowUnused = Annotated[
    bool, typer.Option("--allow-unused", help="Accept pictures that belong to no case.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"feda3i {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Federated medical image segmentation when the annotations are noisy."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quiet: Quiet = False,
) -> None:
    """See it work in minutes: synthetic cases, several sites, a table and pictures."""
    from feda3i.commands.demo import demo as command

    command(out, seed, quiet)


@app.command()
def run(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A .toml file or the name of a built-in recipe; none: list them.",
            autocompletion=complete.recipes,
        ),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/NAME.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only say what would happen: sites, noise, minutes, memory, bytes."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: federated training from the first round to the finished model."""
    from feda3i.commands.run import need_recipe
    from feda3i.commands.run import run as command

    command(need_recipe(recipe), overrides or [], out, quiet, dry_run)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Run folder of an interrupted run.")],
    quiet: Quiet = False,
    trust_code: TrustCode = False,
) -> None:
    """Go on with an interrupted run, to the same end as if it had not been interrupted."""
    from feda3i.commands.run import resume as command

    command(folder, quiet, trust_code)


@app.command()
def bench(
    grid: Annotated[
        str | None,
        typer.Argument(help="A .toml file or the name of a built-in grid; none: list them."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="data.skin=DIR, seeds=[0,1], rows=[...], or changes to every recipe."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run folders.")] = Path("runs/bench"),
    results: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    shard: Annotated[
        str | None, typer.Option(help="I/N: only the I-th of N parts of the grid.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only runs with this text in their name.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs side by side; default: one per core.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the runs and estimate their time.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="Only list the runs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a grid of methods, settings and seeds; what is done is not run again."""
    from feda3i.commands.bench import bench as command
    from feda3i.commands.bench import need_grid

    command(
        need_grid(grid),
        overrides or [],
        out=out,
        results=results,
        shard=shard,
        only=only or [],
        jobs=jobs,
        quiet=quiet,
        is_dry=dry_run,
        is_list=show,
    )


@app.command()
def tables(
    places: Annotated[
        list[Path], typer.Argument(help="Result files, run folders, or their parents.")
    ],
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Grids to make tables of; default: all built-in ones with results."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for Markdown, CSV, LaTeX and figures.")
    ] = None,
) -> None:
    """Make tables and figures of results, with statistics and the paper's numbers beside."""
    from feda3i.commands.tables import tables as command

    command(places, grid or [], out)


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Run folder.")],
    data: Annotated[
        Path | None, typer.Option(help="Score on this folder of images and masks, or CSV, instead.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the scores of every case here.")] = None,
    allow_unused: AllowUnused = False,
    trust_code: TrustCode = False,
) -> None:
    """Score the model of a run case by case and site by site: Dice, IoU, HD95, ASSD."""
    from feda3i.commands.evaluate import evaluate as command

    command(folder, data, csv, trust_code, allow_unused)


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="Run folder, or a model.safetensors file.")],
    images: Annotated[Path, typer.Argument(help="An image or a folder of images.")],
    out: Annotated[Path, typer.Option(help="Folder for the masks.")],
    overlay: Annotated[bool, typer.Option(help="Also draw the contour on each image.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing masks.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Write masks for new images, at their own resolution."""
    from feda3i.commands.predict import predict as command

    command(folder, images, out, overlay, overwrite, trust_code)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: DIR/report.html, or report.html for several."),
    ] = None,
    gallery: Annotated[
        int,
        typer.Option(
            min=0,
            max=200,
            help="Also show this many cases, worst first; the file then contains images.",
        ),
    ] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="With --gallery: show this folder of images and masks instead."),
    ] = None,
    trust_code: TrustCode = False,
) -> None:
    """Write one HTML page about runs: results over seeds, curves, who draws how, who has a say."""
    from feda3i.commands.report import report as command

    command(folders, out, gallery, data, trust_code)


@app.command()
def plot(
    folders: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pictures; default: RUN/pictures, or pictures."),
    ] = None,
    formats: Annotated[
        str, typer.Option(help="png, svg, pdf, separated by commas; svg and pdf are for papers.")
    ] = "png,svg",
) -> None:
    """Draw runs: test curves (seeds of one recipe as a band), the survey, weights by stage."""
    from feda3i.commands.plot import plot as command

    command(folders, out, formats)


@app.command()
def track(
    folders: Annotated[list[Path], typer.Argument(help="Run folders.")],
    to: Annotated[str, typer.Option(help="tensorboard or mlflow.")] = "tensorboard",
    target: Annotated[
        str | None,
        typer.Option(help="Folder (TensorBoard) or tracking URI (MLflow); default: their own."),
    ] = None,
) -> None:
    """Copy runs to TensorBoard or MLflow; with engine.track, a run does so itself."""
    from feda3i.commands.track import track as command

    command(folders, to, target)


@app.command()
def audit(
    source: Annotated[
        str,
        typer.Argument(
            help="Folder of sites (or CSV table), a run folder, or a recipe.",
            autocompletion=complete.recipes,
        ),
    ],
    overrides: Overrides = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Judge by this run folder's or file's model; default: train one."),
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train new models on a run's data; see docs/audit.md.")
    ] = False,
    survey: Annotated[
        bool, typer.Option("--survey", help="Use what a FedA3I run's sites sent, and no pixels.")
    ] = False,
    trusted: Annotated[
        Path | None, typer.Option(help="Folder of images whose masks are right: they define zero.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Differences below this are 'in line'; default: 3/256 of the side."),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=2, help="Steps of a site when models are trained for the audit.")
    ] = 250,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; default: audit, or RUN/audit.")
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="contour (by a model) or edges (by the images); default: both."),
    ] = None,
    quiet: Quiet = False,
    trust_code: TrustCode = False,
) -> None:
    """Audit annotation quality: which site draws larger or smaller, and which cases to recheck."""
    from feda3i.commands.audit import Wish
    from feda3i.commands.audit import audit as command

    command(
        Wish(
            source=source,
            overrides=overrides or [],
            model=model,
            retrain=retrain,
            survey=survey,
            trusted=trusted,
            estimators=estimator or (),
            margin=margin,
            steps=steps,
            out=out,
            quiet=quiet,
            trust_code=trust_code,
        )
    )


@app.command("list")
def list_names() -> None:
    """List methods, data sets, noise models, networks and built-in recipes."""
    from feda3i.commands.explain import list_names as command

    command()


@app.command()
def explain(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Any NAME that 'feda3i list' shows, or a kind and a name: model unet.",
            autocompletion=complete.names,
        ),
    ],
    size: Annotated[int, typer.Option(help="For 'model': size of a case in pixels.")] = 64,
    channels: Annotated[int, typer.Option(help="For 'model': channels of an image.")] = 3,
) -> None:
    """Explain a method (paper, what leaves a site), data set, noise, network or recipe."""
    from feda3i.commands.explain import explain as command

    command(names, size, channels)


@app.command()
def check(
    names: Annotated[
        list[str],
        typer.Argument(help="Folder of images and masks, or a CSV table; or: method NAME."),
    ],
    size: Annotated[int | None, typer.Option(help="Size to train at, in pixels.")] = None,
    classes: Annotated[
        str, typer.Option(help="Names of the mask values 1, 2, ..., separated by commas.")
    ] = "",
    group: Annotated[
        str | None, typer.Option(help="Pattern for patients: '(?P<group>[^_]+)_.*'.")
    ] = None,
    allow_unused: AllowUnused = False,
    mail: Annotated[
        Path | None, typer.Option(help="Write a summary without names and pixels here.")
    ] = None,
    problems: Annotated[Path | None, typer.Option(help="Write all findings to this CSV.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256)] = None,
) -> None:
    """Check a site's folder before training (exit code 1: not fit), or a method of your own."""
    if names[0] == "method":
        from feda3i.commands.check_method import check_method

        check_method(names[1:])
        return
    if len(names) > 1:
        raise RecipeError(f"expected one folder, or: method NAME; found {len(names)} arguments")
    from feda3i.commands.check import check as command

    command(
        Path(names[0]),
        size=size,
        classes=classes,
        group=group,
        allow_unused=allow_unused,
        mail=mail,
        problems=problems,
        workers=workers,
    )


def main() -> None:
    """Run the command line; show errors as sentences, not as tracebacks."""
    for stream in (sys.stdout, sys.stderr):
        # File names need not be text; one that cannot be printed must not end a command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="feda3i")
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        from feda3i.failures import command_of, explain

        _fail(*explain(error, command_of(sys.argv[1:])))


def _fail(text: str, code: int) -> None:
    print(f"feda3i: {text}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
