"""Start a run, resume it, and finish it."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from feda3i.core.cases import Federation
from feda3i.core.holdout import with_validation
from feda3i.core.server import Server
from feda3i.engine.console import Listener, Silent
from feda3i.engine.events import EventLog, last_rows
from feda3i.engine.guarding import Guard, UnsoundError
from feda3i.engine.interrupt import Interrupt
from feda3i.engine.job import Job, job_for
from feda3i.engine.loop import Round, summarise_scores
from feda3i.engine.manifest import BestModel, check_code_kept, check_data_kept, moved
from feda3i.engine.notes import final_notes, losses_of, notes_after, notes_before
from feda3i.engine.run_folder import RunFolder, check_new
from feda3i.engine.tracking import Tracker
from feda3i.engine.transport import LocalTransport, Transport, one_thread
from feda3i.engine.validation import Best, BestWatch
from feda3i.errors import RunError
from feda3i.files import write_file
from feda3i.recipe import Recipe, validate
from feda3i.recipe.trust import check_trust
from feda3i.simulation.annotation import annotators_of
from feda3i.simulation.federation import clean_federation, federation_of, noisy_federation
from feda3i.simulation.views import as_trained


@dataclass(frozen=True)
class Result:
    """The end of a run: where it lies, the hash of its model and its last test scores."""

    path: Path
    sha256: str
    scores: dict[str, float]
    notes: tuple[str, ...] = ()
    """What must be known before the scores are believed."""
    best: BestModel | None = None
    """The model of the round that scored best on the validation cases, if there are any."""


def run(
    recipe: Recipe,
    path: str | Path,
    *,
    listener: Listener | None = None,
    federation: Federation | None = None,
) -> Result:
    """Run a recipe in a new folder.

    ``listener`` receives progress messages, ``federation`` are cases that are at hand already; by
    default they are made from the recipe.
    """
    path, listener = Path(path), listener or Silent()
    check_new(path)
    with one_thread():
        # What cannot work fails here, before a folder is made.
        if federation is None:
            listener.doing("reading the cases")
            given = clean_federation(recipe)
            annotators = annotators_of(recipe, given)
        else:
            if federation.notes.get("source") == "arrays":
                recipe = validate({**recipe.to_dict(), "data": {"name": "arrays"}})
            given = with_validation(federation, recipe.validation.share, recipe.seed)
            annotators = {}
        job = job_of(recipe, given)
        job.check_memory(max(len(index) for index in given.sites.values()))
        _ = job.layout, job.device()
        if annotators:
            listener.doing("drawing the masks of the noisy annotators")
        else:
            as_trained(given, recipe.method.name)
        given = noisy_federation(given, recipe, annotators)
        with closing(RunFolder.create(path, recipe, {"data": describe(given)})) as folder:
            return _run_here(folder, job, given, listener)


def resume(
    path: str | Path,
    *,
    listener: Listener | None = None,
    federation: Federation | None = None,
    trust_code: bool = False,
) -> Result:
    """Go on with a run that was interrupted, to the same end as if it had not been.

    Plug-ins that its recipe names are loaded only with ``trust_code``: the folder may come from
    anybody.
    """
    path, listener = Path(path), listener or Silent()
    with closing(RunFolder.open(path, to_write=True)) as folder:
        manifest, recipe = folder.manifest(), folder.recipe()
        if manifest.get("engine") == "flower":
            raise RunError(
                f"'{path}' was run over the network; go on at its server: "
                f"feda3i deploy run {path}/recipe.toml --name {path.name} --resume"
            )
        if folder.is_done:
            return finished(folder)
        check_trust(recipe, folder.path, trust_code)
        check_code_kept(manifest, recipe, path)
        with one_thread():
            if federation is None:
                listener.doing("reading the cases")
                federation = federation_of(recipe)
            federation = with_validation(federation, recipe.validation.share, recipe.seed)
            check_data_kept(manifest, describe(federation), path)
            job = job_of(recipe, federation)
            return _run_here(folder, job, federation, listener, moved(manifest))


def _run_here(
    folder: RunFolder,
    job: Job,
    federation: Federation,
    listener: Listener,
    changed: Sequence[str] = (),
) -> Result:
    seen = as_trained(federation, job.recipe.method.name)
    with closing(LocalTransport(job, seen, folder.path)) as transport:
        return run_rounds(folder, job, transport, listener, changed)


def finished(folder: RunFolder) -> Result:
    """Return the result of a run that is done, if its model is the one that it made."""
    digest = folder.check_model()
    scores = summarise_scores(last_rows(folder.events))
    return Result(folder.path, digest, scores, final_notes(folder.events), folder.best())


def job_of(recipe: Recipe, federation: Federation) -> Job:
    """Return the job that fits a federation's cases."""
    return job_for(recipe, federation.train, len(federation.classes))


def describe(federation: Federation) -> dict[str, Any]:
    """Return what the manifest says of the data."""
    return {
        "sha256": federation.train.digest(),
        "test_sha256": federation.test.digest(),
        "cases": len(federation.train),
        "test": len(federation.test),
        "sites": {name: len(federation.sites[name]) for name in federation.names()},
        "sites_sha256": federation.digest_of_sites(),
        "classes": list(federation.classes),
        "notes": {key: value for key, value in federation.notes.items() if key != "path"},
    }


def run_rounds(
    folder: RunFolder,
    job: Job,
    transport: Transport,
    listener: Listener,
    changed: Sequence[str] = (),
) -> Result:
    """Play all rounds that are left, with any engine, and finish the run folder.

    What ``changed`` since the run began (versions, processor) goes to the console and the log.
    """
    recipe, factor = job.recipe, job.recipe.engine.guard_factor
    server, number, watch = _server(folder, job, transport)
    is_guarded = recipe.engine.guards(transport.is_remote)
    guard = Guard.of_log(folder.events, factor) if is_guarded else None
    tracker = Tracker(recipe.engine.sinks(), folder.path, number, listener.note)
    log = EventLog(folder.events, tracker.take)
    name = recipe.title or folder.path.name
    listener.begin(f"{name}, {recipe.method.name}, seed {recipe.seed}", recipe.rounds, number - 1)
    unproven = b""
    try:
        for line in [*changed, *(f"NOTE: {n}" for n in notes_before(job.method, recipe.rounds))]:
            listener.note(line)
        if number == 1:
            write_start(log, job, server.stages)
        if changed:
            log.write("resume", round=number, changed=list(changed))
        with Interrupt() as interrupt:
            while number <= recipe.rounds and not watch.is_over:
                _look_around(server, transport, number, log, listener)
                round = Round(
                    job, server, transport, number, listener, folder.path, interrupt, guard
                )
                try:
                    event = round.run()
                except UnsoundError as error:
                    assert guard is not None
                    site, reason = guard.bar(error, len(server.sites))
                    log.sync()
                    server, number, watch = _server(folder, job, transport)
                    if number == 1:
                        write_start(log, job, server.stages)
                    guard = replace(Guard.of_log(folder.events, factor), barred=guard.barred)
                    log.write("undone", round=number, site=site, reason=reason)
                    listener.note(f"NOTE: again from round {number} on: {site} is {reason}")
                    unproven = b""
                    continue
                if unproven:
                    write_file(folder.checkpoint, unproven)
                event |= round.validate(log, watch)
                scores = round.score(log, watch.is_over)
                told = log.write("round", **event, **scores, **transport.facts())
                if guard is not None:
                    guard.take(told)
                log.sync()
                unproven = folder.packed(number, server.params, server.state, watch.best)
                if guard is None or watch.is_over or number == recipe.rounds:
                    write_file(folder.checkpoint, unproven)
                listener.round({**event, **scores})
                number += 1
        log.sync()
        losses, rows = losses_of(folder.events), last_rows(folder.events)
        notes = watch.notes(len(losses), recipe.rounds)
        for note in [*notes, *notes_after(job.method, server.state, losses, rows)]:
            log.write("note", text=note, is_result=True)
        log.sync()
        folder.finish(job, server.params, watch.best)
    finally:
        listener.end()
        log.close()
        tracker.end(folder.is_done)
    return finished(folder)


def write_start(log: EventLog, job: Job, stages: Sequence[str]) -> None:
    """Write what the log of a run begins with: the recipe, the stages, what the run cannot do."""
    log.write("start", recipe=job.recipe.shared(), stages=list(stages))
    for note in notes_before(job.method, job.recipe.rounds):
        log.write("note", text=note, is_result=False)


def _server(folder: RunFolder, job: Job, transport: Transport) -> tuple[Server, int, BestWatch]:
    """Return the server as the last checkpoint left it, the round to play next, the best so far."""
    server = job.server(transport.sites())
    saved = folder.load()
    watch = BestWatch(job.recipe.validation)
    if saved is None:
        job.method.start(server)
        folder.save(0, server.params, server.state)
        return server, 1, watch
    job.layout.check(saved["params"])
    server.params, server.state = saved["params"], saved["state"]
    if folder.events.exists():
        os.truncate(folder.events, saved["events"])  # what was written after the checkpoint
    if saved.get("best"):
        watch.best = Best(**saved["best"])
        job.layout.check(watch.best.params)
    return server, int(saved["round"]) + 1, watch


def _look_around(
    server: Server, transport: Transport, number: int, log: EventLog, listener: Listener
) -> None:
    """Take in sites that have come since the last round."""
    sites = transport.sites()
    joined = {site: cases for site, cases in sites.items() if site not in server.sites}
    if joined:
        log.write("join", round=number, sites=joined)
        said = ", ".join(f"{site} with {cases} cases" for site, cases in joined.items())
        listener.note(f"round {number}: joined by {said}")
    server.sites = sites
