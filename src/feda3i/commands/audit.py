"""``feda3i audit``: who draws larger or smaller than the others, and which cases to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from feda3i.commands.run import free_folder, listener, tell_data
from feda3i.errors import RecipeError, RunError
from feda3i.recipe import load
from feda3i.recipe.trust import announce, check_trust

if TYPE_CHECKING:
    from feda3i.audit.sources import Material, Model
    from feda3i.core.cases import Cases, Federation
    from feda3i.engine.run_folder import RunFolder
    from feda3i.recipe import Recipe


@dataclass(frozen=True)
class Wish:
    """What the user asked for; see the options of ``feda3i audit``."""

    source: str
    overrides: Sequence[str] = ()
    model: Path | None = None
    retrain: bool = False
    survey: bool = False
    trusted: Path | None = None
    estimators: Sequence[str] = ()
    margin: float | None = None
    steps: int = 250
    out: Path | None = None
    quiet: bool = False
    trust_code: bool = False


def audit(wish: Wish) -> None:
    """Measure, judge, print the table and write the files."""
    from feda3i.audit.assemble import build_audit, looks_of
    from feda3i.audit.audit_page import page_of
    from feda3i.audit.writing import text_of, write_audit
    from feda3i.engine.transport import one_thread

    _check(wish)
    with one_thread():
        material = _material(wish)
    found = build_audit(material, wish.margin)
    target = wish.out or _target(Path(wish.source))
    made = write_audit(target, found, looks_of(material), material.classes, page_of(found))
    print(text_of(found))
    print(f"\naudit  {target / 'audit.html'}, audit.csv and audit.json: may be shared")
    if len(made) > 3:
        print(
            f"cases  {target / 'stays-at-the-site'}: which to look at again, one list per site; "
            f"they name cases and stay at the site"
        )


def _check(wish: Wish) -> None:
    if wish.model is not None and wish.retrain:
        raise RecipeError("--model and --retrain exclude each other; choose one")
    if wish.survey and (wish.model or wish.retrain or wish.trusted or wish.overrides):
        raise RecipeError("--survey reads a run's event log alone: leave the other options out")
    if wish.margin is not None and not wish.margin > 0:
        raise RecipeError(f"--margin: expected a distance above 0, found {wish.margin}")


def _material(wish: Wish) -> Material:
    from feda3i.audit.estimators import DEFAULT
    from feda3i.audit.sources import from_federation
    from feda3i.audit.surveyed import from_survey
    from feda3i.engine.run_folder import RunFolder

    path = Path(wish.source)
    is_run = RunFolder(path).is_run
    if wish.survey or (is_run and RunFolder.open(path).manifest().get("engine") == "flower"):
        return from_survey(RunFolder.open(path))
    if is_run:
        if wish.overrides:
            raise RecipeError("a run has its recipe: expected no key=value after a run folder")
        recipe, federation, model = _of_run(wish, path)
    else:
        recipe, federation, model = _of_data(wish)
    trusted = None if wish.trusted is None else _trusted(wish.trusted, recipe, federation)
    return from_federation(
        recipe,
        federation,
        model,
        title=recipe.title or path.name,
        estimators=wish.estimators or DEFAULT,
        listener=listener(wish.quiet),
        trusted=trusted,
        steps=wish.steps,
    )


def _of_run(wish: Wish, path: Path) -> tuple[Recipe, Federation, Model | None]:
    """Return a run's data, and its model unless another one is to be used."""
    from feda3i.engine.manifest import COMPARED, check_data_kept
    from feda3i.engine.run import describe
    from feda3i.engine.run_folder import RunFolder
    from feda3i.simulation.federation import federation_of

    run = RunFolder.open(path)
    recipe = run.recipe()
    check_trust(recipe, path, wish.trust_code)
    announce(recipe)
    listener(wish.quiet).doing("reading the cases")
    federation = federation_of(recipe)
    check_data_kept(run.manifest(), describe(federation), path, COMPARED)
    if wish.retrain:
        return recipe, federation, None
    if wish.model is not None:
        return recipe, federation, _given(wish, wish.model)
    return recipe, federation, _model_of(run, recipe, federation)


def _model_of(run: RunFolder, recipe: Recipe, federation: Federation) -> Model:
    """Return the model that a run surveyed its sites with, else the one of its last round."""
    from feda3i.audit.sources import Model
    from feda3i.core.messages import Params
    from feda3i.engine.run import job_of

    saved = run.load()
    if saved is None or not saved["round"]:
        raise RunError(f"'{run.path}' has no model yet: feda3i resume {run.path}, or add --retrain")
    early = saved["state"].get("early")
    params: Params = early if isinstance(early, Params) else saved["params"]
    job = job_of(recipe, federation)
    job.layout.check(params)
    words = (
        "the warmed-up model with which this run surveyed its sites"
        if isinstance(early, Params)
        else f"the model of this run after round {saved['round']}"
    )
    # The reference row "clean" was trained on the masks beneath the noise, not on these.
    seen = "" if recipe.method.name == "clean" else federation.train.digest()
    return Model(job.predictor().load(params), words, seen)


def _given(wish: Wish, path: Path) -> Model:
    """Return a model of a file or of another run."""
    from feda3i.audit.sources import Model
    from feda3i.engine.model_file import open_predictor
    from feda3i.engine.run_folder import RunFolder

    predictor = open_predictor(path, trust_code=wish.trust_code)
    seen = None
    if path.is_dir():
        seen = RunFolder.open(path).manifest().get("data", {}).get("sha256")
    return Model(predictor, f"the model '{path.name}'", seen)


def _of_data(wish: Wish) -> tuple[Recipe, Federation, Model | None]:
    """Return the data of a folder, a table or a recipe, and the given model if there is one."""
    from feda3i.recipe.finding import built_in
    from feda3i.simulation.federation import federation_of

    given = None if wish.model is None else _given(wish, wish.model)
    is_recipe = wish.source in built_in() or wish.source.endswith(".toml")
    name = wish.source if is_recipe else "own"
    fitting = [] if is_recipe else [f"data={wish.source}"]
    if given is not None:
        form = given.predictor.format
        fitting += [f"data.size={form.shape[0]}", f"data.channels={form.channels}"]
        fitting.append(f"data.aspect={form.aspect}")
        if form.classes > 1:
            fitting.append(f"data.classes={[f'class-{k + 1}' for k in range(form.classes)]}")
    recipe = load(name, [*fitting, *wish.overrides])
    if not is_recipe:
        recipe = recipe.model_copy(update={"title": Path(wish.source).name})
    tell_data(recipe, wish.quiet)
    announce(recipe)
    listener(wish.quiet).doing("reading the cases")
    federation = federation_of(recipe)
    if given is not None:
        _check_fit(given, federation)
    return recipe, federation, given


def _check_fit(model: Model, federation: Federation) -> None:
    form, cases = model.predictor.format, federation.train
    expected = (form.shape, form.channels, form.classes)
    found = (tuple(cases.shape), cases.channels, len(federation.classes))
    if expected != found:
        raise RecipeError(
            f"the model takes cases of size {expected[0]} with {expected[1]} channels and "
            f"{expected[2]} classes, found {found[0]}, {found[1]} and {found[2]}"
        )


def _trusted(path: Path, recipe: Recipe, federation: Federation) -> Cases:
    """Load trusted masks as the sites' cases were loaded."""
    from feda3i.data.folder import load_folder

    cases = federation.train
    several = federation.classes if len(federation.classes) > 1 else ()
    options = recipe.data.options()
    return load_folder(
        path,
        size=cases.shape[0],
        channels=cases.channels,
        classes=several,
        aspect=options.get("aspect", "squeeze"),
        unused=options.get("unused", "error"),
    )


def _target(source: Path) -> Path:
    """Return a free folder: in the run itself, or here."""
    from feda3i.engine.run_folder import RunFolder

    parent = source if RunFolder(source).is_run else Path()
    return free_folder(parent, "audit")
