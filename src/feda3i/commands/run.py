"""``feda3i run`` and ``feda3i resume``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.commands.app import Overrides, Quiet, TrustCode
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.engine.console import Listener
    from feda3i.engine.run import Result
    from feda3i.recipe import Recipe


def run(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A .toml file or the name of a built-in recipe; none: list them."),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/NAME.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would happen: sites, noise, minutes, bytes."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: federated training from the first round to the finished model."""
    from feda3i.commands.preview import print_forecast, tell_data
    from feda3i.engine.run import run as start
    from feda3i.recipe.finding import built_in, title_of
    from feda3i.recipe.trust import announce

    if recipe is None:
        rows = "\n".join(f"  {known:<16}{title_of(known)}" for known in built_in())
        raise RecipeError(
            f"expected a recipe: the path of a .toml file, or one of\n{rows}\n"
            "Start with: feda3i run demo. More about one: feda3i explain demo"
        )
    loaded, name = load_named(recipe, overrides or [], quiet)
    tell_data(loaded, quiet)
    announce(loaded)
    path = out or free_folder(Path("runs"), name)
    if dry_run:
        print_forecast(loaded, path)
        return
    try:
        result = start(loaded, path, listener=listener(quiet))
    except KeyboardInterrupt:
        stop(path)
    show(result)


def resume(
    folder: Annotated[Path, typer.Argument(help="Run folder of an interrupted run.")],
    quiet: Quiet = False,
    trust_code: TrustCode = False,
) -> None:
    """Continue an interrupted run, to the same result as without the interruption."""
    from feda3i.engine.run import resume as go_on
    from feda3i.engine.run_folder import RunFolder
    from feda3i.recipe.trust import announce

    if trust_code:
        announce(RunFolder.open(folder).recipe())
    try:
        result = go_on(folder, listener=listener(quiet), trust_code=trust_code)
    except KeyboardInterrupt:
        stop(folder)
    show(result)


def listener(quiet: bool) -> Listener:
    """Return the listener for progress messages."""
    from feda3i.engine.console import Live, Silent

    return Silent() if quiet else Live()


def stop(path: Path) -> None:
    """Say how to continue, and exit."""
    from feda3i.engine.run_folder import RunFolder
    from feda3i.recipe.trust import named_code

    folder = RunFolder(path)
    if folder.is_run:
        trust = " --trust-code" if named_code(folder.recipe()) else ""
        print(f"\ninterrupted; continue with: feda3i resume {path}{trust}", file=sys.stderr)
    sys.exit(130)


def show(result: Result) -> None:
    """Print the result of a run, and write its report."""
    from feda3i.commands.report import report_at_end
    from feda3i.engine.run_folder import RunFolder

    scores = "  ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
    print(f"run    {result.path}")
    print(f"model  {result.path / 'model.safetensors'}")
    print(f"sha256 {result.sha256}")
    print(f"test   {scores}")
    if result.best is not None:
        about = f"round {result.best.round}, validation Dice {result.best.score:.4f}"
        print(f"best   {result.path / 'best.safetensors'} ({about})")
    if report := report_at_end([result.path], result.path):
        print(f"report {report}")
    notes, recipe = list(result.notes), RunFolder.open(result.path).recipe()
    if recipe.data.name == "folder" and recipe.noise.name == "none":
        notes.append(
            "the test scores compare with the sites' own masks; to compare with masks that you "
            f"trust: feda3i evaluate {result.path} --data TRUSTED"
        )
    for text in notes:
        print(f"NOTE   {text}")


def load_named(recipe: str, overrides: Sequence[str], quiet: bool = False) -> tuple[Recipe, str]:
    """Load a recipe, with a title, and return a name for the folder of its run as well."""
    from feda3i.recipe import load
    from feda3i.recipe.loading import run_name

    source = Path(recipe).stem
    loaded = load(recipe, overrides, (lambda _: None) if quiet else note)
    if not loaded.title:
        loaded = loaded.model_copy(update={"title": source})
    return loaded, run_name(loaded, source)


def note(text: str) -> None:
    """Say something that the user should know, apart from the result."""
    print(f"NOTE: {text}", file=sys.stderr)


def free_folder(parent: Path, stem: str) -> Path:
    """Return a folder name that is not taken, with a number if needed."""
    path, number = parent / stem, 2
    while path.exists():
        path, number = parent / f"{stem}-{number}", number + 1
    return path
