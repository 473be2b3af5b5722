"""``feda3i run`` and ``feda3i resume``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feda3i.errors import RecipeError
from feda3i.log.console import Listener, Live, Silent
from feda3i.recipe import Recipe, load
from feda3i.recipe.finding import built_in, title_of
from feda3i.recipe.naming import name_of
from feda3i.recipe.trust import announce, named_code

if TYPE_CHECKING:
    from feda3i.engine.run import Result


def run(
    recipe: str, overrides: Sequence[str], out: Path | None, quiet: bool, is_dry: bool = False
) -> None:
    """Run a recipe and print where the result lies; or only say what would happen."""
    from feda3i.engine.run import run as start

    loaded, name = load_named(recipe, overrides, quiet)
    tell_data(loaded, quiet)
    announce(loaded)
    path = out or free_folder(Path("runs"), name)
    if is_dry:
        from feda3i.commands.dry_run import dry_run

        dry_run(loaded, path)
        return
    try:
        result = start(loaded, path, listener=listener(quiet))
    except KeyboardInterrupt:
        stop(path)
    show(result)


def tell_data(recipe: Recipe, quiet: bool) -> None:
    """Say what becomes of a folder's files and sites; warnings first, and even if quiet."""
    from feda3i.commands.preview import preview

    warnings, lines = preview(recipe)
    for line in [*warnings, *([] if quiet else lines)]:
        print(line, file=sys.stderr)


def need_recipe(name: str | None) -> str:
    """Return the name of the recipe; ``RecipeError`` with the list of recipes if there is none."""
    if name is not None:
        return name
    rows = "\n".join(f"  {known:<16}{title_of(known)}" for known in built_in())
    raise RecipeError(
        f"expected a recipe: the path of a .toml file, or one of\n{rows}\n"
        "Start with: feda3i run demo. More about one: feda3i explain demo"
    )


def resume(folder: Path, quiet: bool, trust_code: bool = False) -> None:
    """Go on with a run."""
    from feda3i.engine.run import resume as go_on
    from feda3i.engine.run_folder import RunFolder

    if trust_code:
        announce(RunFolder.open(folder).recipe())

    try:
        result = go_on(folder, listener=listener(quiet), trust_code=trust_code)
    except KeyboardInterrupt:
        stop(folder)
    show(result)


def listener(quiet: bool) -> Listener:
    """Return the listener for progress messages."""
    return Silent() if quiet else Live()


def stop(path: Path) -> None:
    """Say how to go on, and leave."""
    from feda3i.engine.run_folder import RunFolder

    folder = RunFolder(path)
    if folder.is_run:
        trust = " --trust-code" if named_code(folder.recipe()) else ""
        print(f"\ninterrupted; continue with: feda3i resume {path}{trust}", file=sys.stderr)
    sys.exit(130)


def show(result: Result) -> None:
    """Print the result of a run, and write its report."""
    from feda3i.commands.report import report_at_end

    scores = "  ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
    print(f"run    {result.path}")
    print(f"model  {result.path / 'model.safetensors'}")
    print(f"sha256 {result.sha256}")
    print(f"test   {scores}")
    report = report_at_end([result.path], result.path)
    if report is not None:
        print(f"report {report}")
    for note in result.notes:
        print(f"NOTE   {note}")


def load_named(recipe: str, overrides: Sequence[str], quiet: bool = False) -> tuple[Recipe, str]:
    """Load a recipe under the title that fits what it does; also return a name for its folder."""
    loaded = load(recipe, overrides, tell=(lambda _: None) if quiet else note)
    try:
        base = load(recipe)
    except RecipeError:  # it needs the overrides
        base = loaded
    name = name_of(loaded, base, Path(recipe).stem)
    return loaded.model_copy(update={"title": name.title}), name.stem


def note(text: str) -> None:
    """Say something that the user should know, apart from the result."""
    print(f"NOTE: {text}", file=sys.stderr)


def free_folder(parent: Path, stem: str) -> Path:
    """Return a folder name that is not taken, with a number if needed."""
    from feda3i.engine.lock import is_free, is_held

    path, number = parent / stem, 2
    while not is_free(path) or is_held(path):
        path, number = parent / f"{stem}-{number}", number + 1
    return path
