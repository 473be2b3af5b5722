"""``feda3i privacy``: what leaves a site, on one page for an ethics board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feda3i.commands.app import Overrides, TrustCode, complete_recipe
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.engine.job import Job
    from feda3i.recipe import Recipe
    from feda3i.report.disclosure import Disclosure


def privacy(
    source: Annotated[
        str,
        typer.Argument(
            help="A finished run folder, a .toml file, or the name of a built-in recipe.",
            autocompletion=complete_recipe,
        ),
    ],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Also write an HTML page here.")] = None,
    trust_code: TrustCode = False,
) -> None:
    """Say what leaves a site, how often, who can see it: one page for an ethics board."""
    from feda3i.basics.files import write_file
    from feda3i.report.disclosure_page import disclosure_page, markdown

    path = Path(source)
    is_run = path.is_dir()
    if is_run and overrides:
        raise RecipeError("a run is described as it was: expected no key=value beside its folder")
    found = _of_run(path, trust_code) if is_run else _of_recipe(source, overrides or [])
    print(markdown(found), end="")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        text = disclosure_page(found).encode("utf-8", "backslashreplace")
        write_file(out, text, durable=False)
        print(f"\n{out}")


def _of_run(path: Path, trust_code: bool) -> Disclosure:
    """Return the manifest of a finished run, with the bytes that a network counted."""
    from dataclasses import replace

    from feda3i.engine.model_file import read_model
    from feda3i.report.disclosure import disclose
    from feda3i.report.run.reader import read_run
    from feda3i.report.run.wire_section import counted_bytes

    job, _ = read_model(path / "model.safetensors", trust_code=trust_code)
    log = read_run(path)
    found = disclose(job, str(log.recipe.get("title") or path.resolve().name), len(log.cases))
    spent = [note for note in log.notes if note.startswith("differential privacy")]
    return replace(found, counted=counted_bytes(log), shields=(*found.shields, *spent))


def _of_recipe(source: str, overrides: list[str]) -> Disclosure:
    from feda3i.recipe import load
    from feda3i.recipe.trust import announce
    from feda3i.report.disclosure import disclose

    recipe = load(source, overrides)
    announce(recipe)
    title = recipe.title or Path(source).stem
    if recipe.data.name == "folder" and "path" not in recipe.data.options():
        return disclose(_of_options(source, recipe), title)  # a consortium: sites have the data
    from feda3i.engine.run import job_of
    from feda3i.simulation.federation import check_recipe

    federation = check_recipe(recipe)
    return disclose(job_of(recipe, federation), title, len(federation.sites))


def _of_options(source: str, recipe: Recipe) -> Job:
    """Return the job of a recipe whose cases lie at the sites, as far as it says what they are."""
    from feda3i.engine.job import Job, format_of
    from feda3i.reading.decode import DEFAULT_CLASSES

    options = recipe.data.options()
    size, channels = options.get("size"), options.get("channels")
    if not isinstance(size, int | list) or not isinstance(channels, int):
        raise RecipeError(
            f"'{source}': the sites have the cases, so the recipe must say what they are like; set "
            f"data.size and data.channels"
        )
    sides = (size, size) if isinstance(size, int) else tuple(size)
    classes = len(options.get("classes", DEFAULT_CLASSES))
    return Job(recipe, format_of(recipe, channels, classes, sides))
