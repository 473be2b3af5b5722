"""What a run will do with its data and how long it takes, said before it begins."""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from feda3i.core.cases import Federation
from feda3i.core.messages import Order
from feda3i.data.breast import EXPECTED
from feda3i.data.division import Division
from feda3i.data.folder import Folder
from feda3i.data.sets import REGISTRY
from feda3i.engine.host import SiteHost
from feda3i.engine.job import Job
from feda3i.engine.notes import notes_before
from feda3i.engine.run import job_of
from feda3i.engine.transport import one_thread, worker_count
from feda3i.errors import RecipeError
from feda3i.reading.usage import usage_lines
from feda3i.recipe import Recipe
from feda3i.report.html import size
from feda3i.simulation.annotation import annotators_of
from feda3i.simulation.federation import clean_federation
from feda3i.simulation.views import as_trained


def tell_data(recipe: Recipe, quiet: bool) -> None:
    """Say how a folder's files and sites are used; what was perhaps not meant, even if quiet."""
    plan = division_of(recipe)
    if plan is None:
        return
    lines = changes_of(recipe, plan)
    if not quiet:
        counts = [f"{site} {len(part)}" for site, part in sorted(plan.parts.items())]
        sites = f"{len(counts)} site{'s' * (len(counts) > 1)}"
        lines += usage_lines(plan.listing.fates)
        lines.append(f"{sites}, training cases: {_few(counts, 12)}; {len(plan.wanted)} test cases")
    print("".join(f"{line}\n" for line in lines), end="", file=sys.stderr)


def division_of(recipe: Recipe) -> Division | None:
    """Return the plan for a recipe with a folder; nothing if it has none, or wrong options."""
    name, given = REGISTRY.canonical(recipe.data.name), recipe.data.options()
    make = REGISTRY.get(name) if name in REGISTRY.builtin else None
    if not (isinstance(make, type) and issubclass(make, Folder) and given.get("path")):
        return None
    try:
        options = make.of({"seed": recipe.seed, **given})
    except RecipeError:
        return None  # the data set itself says which option is wrong
    return options.preview()


def changes_of(recipe: Recipe, plan: Division) -> list[str]:
    """Return changes to real sites or cases that the user may not have intended."""
    found, changes = [], []
    sites = plan.real_sites()
    is_own = not set(sites) <= set(EXPECTED)  # BREAST simulates sites of its sources
    if is_own and set(plan.homes) != set(sites):
        changes.append(f"makes {len(plan.parts)} simulated sites of them ({plan.partition})")
    if is_own and recipe.noise.name != "none":
        changes.append(f"draws simulated noise over their masks (noise {recipe.noise.name})")
    if changes:
        place = recipe.data.options()["path"]
        found.append(
            f"note: {place} holds {len(sites)} real sites ({_few(sites, 5)}), and this recipe "
            f"{' and '.join(changes)}. To train on the sites as they are: "
            f"feda3i run own data={place}"
        )
    if left := plan.left_out():
        counts = ", ".join(f"{count} ({name})" for name, count in left.items())
        found.append(f"note: cases that are neither trained on nor scored: {counts}")
    return found


def _few(names: list[str], show: int) -> str:
    more = f", ... ({len(names) - show} more)" if len(names) > show else ""
    return ", ".join(names[:show]) + more


def print_forecast(recipe: Recipe, path: Path) -> None:
    """Load the data, time one step, and print what a run would do and take."""
    with one_thread():
        job, federation, mu = job_and_data(recipe)
        sites = {name: len(federation.sites[name]) for name in federation.names()}
        job.check_memory(max(sites.values()))
        seconds = recipe.rounds * seconds_of_round(job, federation)
    noise = f"SIMULATED, {recipe.noise.name}: {min(mu):+.1f} to {max(mu):+.1f} px" if mu else "none"
    network = 4 * job.layout.size + 8 * job.layout.integers
    received = network * (1 + len(job.method.wire.networks))
    rows = [
        ("cases", f"{sum(sites.values())} to train on, {len(federation.test)} to test on"),
        ("sites", f"{len(sites)}: {', '.join(f'{name} ({n})' for name, n in sites.items())}"),
        ("noise", noise),
        ("method", f"{recipe.method.name}, {recipe.rounds} rounds of {recipe.train.epochs} epochs"),
        ("time", f"about {duration(seconds)} on {worker_count(job, len(sites))} cores"),
        ("wire", f"a site receives {size(received)} and sends {size(network)} per round"),
        ("folder", str(path)),
        *(("NOTE", note) for note in notes_before(job.method, recipe.rounds)),
    ]
    print(f"{recipe.title or path.name}: what would happen (nothing is trained or written)\n")
    for name, words in rows:
        print(f"{name:<10}{words}")


def job_and_data(recipe: Recipe) -> tuple[Job, Federation, list[float]]:
    """Return job, data and the annotators' offsets; no noisy masks: they change no forecast."""
    federation = clean_federation(recipe)
    mu = [annotator.mu for annotator in annotators_of(recipe, federation).values()]
    if mu:  # as they are now, the masks are the truth of the run
        federation = federation.with_masks(federation.train.masks)
    return job_of(recipe, federation), as_trained(federation, recipe.method.name), mu


def seconds_of_round(job: Job, federation: Federation) -> float:
    """Return about how long a round takes; to score a case takes a third of training on it."""
    recipe, sizes = job.recipe, [len(index) for index in federation.sites.values()]
    workers = worker_count(job, len(sizes))
    # The largest site ends a round.
    trained = max(recipe.engine.fraction * sum(sizes) / workers, max(sizes))
    scored = len(federation.test) / recipe.evaluate.every / workers
    return seconds_of_case(job, federation) * (recipe.train.epochs * trained + scored / 3)


def seconds_of_case(job: Job, federation: Federation) -> float:
    """Return the seconds of one epoch of training per case; the result is thrown away."""
    name = max(federation.names(), key=lambda site: len(federation.sites[site]))
    train = job.recipe.train.model_copy(update={"epochs": 1})
    index = federation.sites[name][: train.batch]
    job = replace(job, recipe=job.recipe.model_copy(update={"train": train}))
    with tempfile.TemporaryDirectory(prefix="feda3i-forecast-") as temporary:
        host = SiteHost(job, federation.train, {name: index}, Path(temporary))
        server = job.server({name: len(index)})
        job.method.start(server)
        plan = job.method.plan(server, 1)
        settings = {**plan.settings, **plan.site_settings.get(name, {})}
        order = Order("fit", 1, name, job.initial, settings, dict(plan.networks.get(name, {})))
        host.answer(order)  # the first time it also prepares
        started = time.perf_counter()
        host.answer(order)
        return (time.perf_counter() - started) / len(index)


def duration(seconds: float) -> str:
    """Return a time as people write it: 41 seconds, 10 minutes, 2.2 hours."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
