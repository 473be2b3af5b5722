"""The server's side: a ``ServerApp`` that runs the same round loop over Flower's grid.

What concerns the server alone comes from its environment, and sites are never told: ``FEDA3I_RUNS``
(folder of run folders), ``FEDA3I_SITES`` (names, separated by commas), ``FEDA3I_TEST`` (folder of
test cases), ``FEDA3I_WAIT`` (seconds to wait for all sites), and ``FEDA3I_SERVER``, the server's
folder, whose ``server.env`` is read again for every run. All else comes with the app.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from feda3i.core.cases import Cases
from feda3i.engine.console import Listener, Live
from feda3i.engine.job import Job, format_of, job_for
from feda3i.engine.manifest import check_data_kept, moved
from feda3i.engine.run import Result, describe, finished, job_of, run_rounds
from feda3i.engine.run_folder import RunFolder
from feda3i.engine.transport import one_thread
from feda3i.errors import RecipeError, RunError
from feda3i.flower.node import folder_options, read_env, recipe_in
from feda3i.flower.roster import Roster
from feda3i.flower.transport import SITES, FlowerTransport
from feda3i.recipe import Recipe
from feda3i.values import split_names

app = ServerApp()


@dataclass(frozen=True)
class ServerSettings:
    """What one run on the server needs to know.

    ``sites`` are the names of the consortium's sites, ``test`` is the server's own test folder.
    """

    recipe: Recipe
    folder: Path
    sites: tuple[str, ...] = ()
    test: Path | None = None
    is_resumed: bool = False
    patience: float = 120.0

    @classmethod
    def of(cls, run_config: Mapping[str, Any], environment: Mapping[str, str]) -> ServerSettings:
        """Read the settings of the app and of the server's environment."""
        if environment.get("FEDA3I_SERVER"):  # it may have changed since the server was started
            environment = {**environment, **read_env(Path(environment["FEDA3I_SERVER"]))}
        name, runs = str(run_config.get("run", "")), Path(environment.get("FEDA3I_RUNS", ""))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            raise RecipeError(f"run-config: expected run=NAME as a folder name, found '{name}'")
        if not runs.is_absolute():
            raise RecipeError("set FEDA3I_RUNS to an absolute folder in the server's environment")
        return cls(
            recipe_in(run_config),
            runs / name,
            split_names(environment.get("FEDA3I_SITES", "")),
            Path(environment["FEDA3I_TEST"]) if environment.get("FEDA3I_TEST") else None,
            is_resumed=run_config.get("resume") is True,
            patience=float(environment.get("FEDA3I_WAIT") or cls.patience),
        )

    def least(self) -> int:
        """Return how many sites must come before the first round."""
        wanted = self.recipe.engine.min_sites
        if wanted == "all" and not self.sites:
            raise RecipeError("engine.min_sites=all needs the list of sites in FEDA3I_SITES")
        return len(set(self.sites)) if wanted == "all" else wanted


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play a run to its end; Flower shows what is raised as the reason of a failed run."""
    settings = ServerSettings.of(context.run_config, os.environ)
    with one_thread():
        result = serve(grid, settings, Live())
    print(f"run    {result.path}\nsha256 {result.sha256}", flush=True)


def serve(
    grid: Grid,
    settings: ServerSettings,
    listener: Listener,
    poll: float = 0.2,
    make: Callable[..., Message] = Message,
) -> Result:
    """Wait for the sites, then start or resume the run and play it to its end."""
    recipe = settings.recipe
    job, test, facts = _prepare(settings)
    sites = settings.folder / SITES
    is_known = settings.is_resumed and sites.exists()
    bound = json.loads(sites.read_text("utf-8")) if is_known else {}
    roster = Roster(grid, settings.sites, bound, make)
    roster.layout = job.layout.digest() if job else None
    roster.wait(settings.least(), settings.patience, recipe.engine.deadline, poll)
    job = job or _job_of_sites(recipe, roster, settings.least())
    roster.layout = job.layout.digest()
    facts["sites"] = cases = dict(sorted(roster.bound.items()))
    listed = (f"{site} {n} ({n / sum(cases.values()):.0%})" for site, n in cases.items())
    listener.note(f"sites and their cases, as they say: {', '.join(listed)}")
    folder, run = _open(settings, facts)
    with closing(folder):
        if folder.is_done:
            return finished(folder)
        transport = FlowerTransport(roster, job, run, folder.path, test, poll)
        changed = moved(folder.manifest()) if settings.is_resumed else []
        return run_rounds(folder, job, transport, listener, changed)


def _prepare(settings: ServerSettings) -> tuple[Job | None, Cases | None, dict[str, Any]]:
    """Return job and test cases, as far as the server has data of its own."""
    recipe, options = settings.recipe, folder_options(settings.recipe)
    if recipe.data.name.startswith("synthetic"):
        from feda3i.simulation.federation import federation_of

        federation = federation_of(recipe)
        return job_of(recipe, federation), federation.test, describe(federation)
    if settings.test is None:
        return None, None, {}
    from feda3i.data.folder import load_folder

    test = load_folder(settings.test, **options)
    facts = {"test": len(test), "test_sha256": test.digest()}
    return job_for(recipe, test, len(options["classes"])), test, facts


def _job_of_sites(recipe: Recipe, roster: Roster, least: int) -> Job:
    """Return the job that most sites agree on; others are turned away.

    Without a majority nobody can say who is wrong.
    """
    kinds = {s: (g.channels, g.classes, tuple(g.shape)) for s, g in sorted(roster.known.items())}
    kind, count = Counter(kinds.values()).most_common(1)[0]
    if 2 * count <= len(kinds) or count < least:
        text = f"the sites' cases do not fit together (channels, classes, size: {kinds}); set "
        raise RunError(f"{text}data.size, data.channels and data.classes in the recipe")
    for site, own in kinds.items():
        if own != kind:
            roster.drop(site, f"its cases have {own} channels, classes, size; most sites' {kind}")
    return Job(recipe, format_of(recipe, *kind))


def _open(settings: ServerSettings, facts: dict[str, Any]) -> tuple[RunFolder, str]:
    """Make the run folder, or open it for a resume; return it and the run's identifier."""
    if not settings.is_resumed:
        run = secrets.token_hex(16)
        about = {"engine": "flower", "run": run, "data": facts}
        return RunFolder.create(settings.folder, settings.recipe, about), run
    with ExitStack() as stack:
        folder = stack.enter_context(closing(RunFolder.open(settings.folder, to_write=True)))
        manifest = folder.manifest()
        if manifest.get("engine") != "flower" or "run" not in manifest:
            raise RunError(f"'{folder.path}' was not made over the network: feda3i resume")
        if folder.recipe().digest() != settings.recipe.digest():
            raise RunError(f"the recipe is not the one that '{folder.path}' was started with")
        # Sites come and go, and only they know their cases; the test cases are the server's.
        check_data_kept(manifest, facts, folder.path, ("test", "test_sha256"))
        stack.pop_all()
        return folder, str(manifest["run"])
