"""``feda3i audit``: who draws larger or smaller than the others, and which cases to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from feda3i.commands.app import Overrides, Quiet, TrustCode, Trusted
from feda3i.commands.evaluate import reading_options
from feda3i.commands.run import free_folder, listener, note
from feda3i.errors import RecipeError

if TYPE_CHECKING:
    from feda3i.audit.case_rows import CaseRow
    from feda3i.core.cases import Cases, Federation
    from feda3i.core.format import Format
    from feda3i.core.predictor import Predictor
    from feda3i.recipe import Recipe


def audit(
    source: Annotated[
        str, typer.Argument(help="Folder of sites (or CSV table), a run folder, or a recipe.")
    ],
    overrides: Overrides = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Judge by this run folder's or file's model; default: train one."),
    ] = None,
    trusted: Trusted = None,
    estimator: Annotated[
        Literal["both", "edges"],
        typer.Option(help="edges: judge by the images alone, without a model."),
    ] = "both",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; default: audit, or RUN/audit.")
    ] = None,
    quiet: Quiet = False,
    trust_code: TrustCode = False,
) -> None:
    """Audit annotation quality: which site draws larger or smaller, and which cases to recheck.

    Of a run over the network only its sites' survey is at hand: no pixels.
    """
    from feda3i.audit.assemble import looks_of
    from feda3i.audit.audit_page import page_of
    from feda3i.audit.sources import from_federation
    from feda3i.audit.surveyed import from_survey
    from feda3i.audit.writing import text_of, write_audit
    from feda3i.commands.preview import tell_data
    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.run_folder import RunFolder
    from feda3i.engine.transport import one_thread
    from feda3i.recipe.trust import announce, check_trust
    from feda3i.simulation.federation import federation_of

    path = Path(source)
    is_run = RunFolder(path).is_run
    rows: list[CaseRow] = []
    with one_thread():
        if is_run and RunFolder.open(path).manifest().get("engine") == "flower":
            if model or trusted or overrides:
                raise RecipeError("the sites of this run have its data: leave the options out")
            found, show = from_survey(RunFolder.open(path)), None
        else:
            given = None if model is None else open_predictor(model, trust_code=trust_code)
            if is_run and overrides:
                raise RecipeError("a run has its recipe: expected no key=value after a run folder")
            recipe = _recipe_of(source, overrides or [], given)
            if is_run:
                check_trust(recipe, path, trust_code)
            tell_data(recipe, quiet)
            announce(recipe)
            listener(quiet).doing("reading the cases")
            federation = federation_of(recipe)
            if given is not None:
                _check_fit(given.format, federation)
            good = None if trusted is None else _trusted(trusted, recipe, federation)
            found, rows, show = from_federation(
                recipe,
                federation,
                listener(quiet),
                given,
                edges_only=estimator == "edges",
                trusted=good,
            )
    target = out or free_folder(path if is_run else Path(), "audit")
    made = write_audit(target, found, looks_of(rows, found.unit), page_of(found), show)
    print(text_of(found))
    print(f"\naudit  {target / 'audit.html'} and audit.csv: may be shared")
    if len(made) > 2:
        place = target / "stays-at-the-site"
        print(f"cases  {place}: which to look at again, by site; they name cases and stay there")


def _recipe_of(source: str, overrides: Sequence[str], given: Predictor | None) -> Recipe:
    """Return the recipe that reads a run's, folder's, table's or recipe's data for a model."""
    from feda3i.engine.run_folder import RunFolder
    from feda3i.recipe import load
    from feda3i.recipe.finding import built_in

    place = Path(source)
    fitting = [] if given is None else keys_of_format(given.format)
    if RunFolder(place).is_run:
        recipe = RunFolder.open(place).recipe()
    elif source in built_in() or source.endswith(".toml"):
        recipe = load(source, [*fitting, *overrides], tell=note)
    else:
        recipe = load(own_recipe(place), [f"data={source}", *fitting, *overrides], tell=note)
        recipe = recipe.model_copy(update={"title": ""})
    return recipe.model_copy(update={"title": recipe.title or place.name})


def own_recipe(source: Path) -> str:
    """Return the recipe that reads a folder of one's own: of pictures, or of volumes."""
    from feda3i.reading.listing import holds_volumes

    return "own-volumes" if holds_volumes(source.expanduser()) else "own"


def keys_of_format(form: Format) -> list[str]:
    """Return the overrides with which cases are read and shown as a model takes them."""
    keys = [f"data.{name}={value}" for name, value in reading_options(form).items()]
    return [*keys, f"train.patch={list(form.shape)}"] if form.patches else keys


def _check_fit(form: Format, federation: Federation) -> None:
    cases = federation.train
    own = form.shape if form.patches else tuple(cases.shape)  # a window slides over any size
    expected = (form.shape, form.channels, form.classes)
    found = (own, cases.channels, len(federation.classes))
    if expected != found:
        raise RecipeError(
            f"the model takes cases of size {expected[0]} with {expected[1]} channels and "
            f"{expected[2]} classes, found {found[0]}, {found[1]} and {found[2]}"
        )


def _trusted(path: Path, recipe: Recipe, federation: Federation) -> Cases:
    from feda3i.data.folder import load_folder

    cases, options = federation.train, recipe.data.options()
    shared = ("volumes", "axis", "values", "spacing", "size", "unused")
    given = {name: options[name] for name in shared if name in options}
    if not (cases.is_ragged or {"size", "volumes"} & set(given)):
        given["size"] = cases.shape[0]
    several = federation.classes if len(federation.classes) > 1 else ()
    return load_folder(path, **given, channels=cases.channels, classes=several)
