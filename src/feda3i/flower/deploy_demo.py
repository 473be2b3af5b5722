"""A consortium on one machine as real processes: for the demo, the slow tests and the benchmark.

The folders are those of ``feda3i deploy init``, and their scripts start the processes. Everything
listens on the loopback address, on ports that were free, and is stopped at the end, also after an
error or Ctrl-C.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import tomli_w

from feda3i.errors import RecipeError, RunError
from feda3i.files import write_file
from feda3i.flower import deploy_control as control
from feda3i.flower.deploy_folders import ConsortiumSettings, write_consortium
from feda3i.recipe import Recipe, validate

PATIENCE = 1800.0  # seconds after which a process that neither answers nor ends is given up


class Consortium:
    """A server and its sites on this machine, in a folder to make.

    A site draws its part of the recipe's synthetic data set. A run waits ``patience`` seconds for
    all sites before it begins with those that came.
    """

    def __init__(self, folder: Path, sites: Sequence[str], patience: float = 120.0) -> None:
        self.folder, self.sites = folder.resolve(), list(sites)
        self.server, self.runs = self.folder / "server", self.folder / "runs"
        places = {"server": self.server, "runs": self.runs, "port": (port := free_port())}
        self.settings = ConsortiumSettings.of(
            sites=tuple(sites), address=f"127.0.0.1:{port}", wait=patience, **places
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        write_consortium(self.folder, self.settings)
        for site in self.sites:
            self._settle(site)
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._processes:
            self._signal(name, signal.SIGTERM)
        end = time.monotonic() + 10
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
        for name in list(self._processes):
            self.kill(name)

    def _settle(self, site: str) -> None:
        settings = {"site": site, "state-dir": str(self.folder / "state"), "allow-synthetic": True}
        write_file(self.folder / "sites" / site / "site.toml", tomli_w.dumps(settings).encode())

    def start_server(self) -> None:
        """Start SuperLink and SuperExec and wait until all sites are registered."""
        self._start("server", self.server / "start.sh", {})
        end = time.monotonic() + PATIENCE
        nodes = self.server / "state" / "nodes"
        while not all((nodes / f"{site}.json").exists() for site in self.sites):
            # A busy machine may take minutes; a server that has ended will never answer.
            if time.monotonic() > end or self._processes["server"].poll() is not None:
                raise RunError(f"the server did not start; see {self.log('server')}")
            time.sleep(0.3)

    def start_site(self, site: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a site's node, with an environment of its own if it needs one."""
        # A demo is over sooner, so a node tries again sooner.
        own = {"FEDA3I_NODE_PORT": str(free_port()), "FEDA3I_RETRY": "3", **(environment or {})}
        self._start(site, self.folder / "sites" / site / "start.sh", own)

    def _start(self, name: str, script: Path, environment: Mapping[str, str]) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        with self.log(name).open("ab") as file:
            self._processes[name] = subprocess.Popen(
                [str(script)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": path, **environment},
                start_new_session=True,  # one group per script: what it starts is stopped with it
            )

    def log(self, name: str) -> Path:
        """Return where the output of a site or of the server goes."""
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """End a site or the server with all its processes, without a warning."""
        self._signal(name, signal.SIGKILL)
        self._processes.pop(name).wait()

    def _signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):  # all of the group are gone already
            os.killpg(self._processes[name].pid, number)

    def start_run(self, recipe: Recipe, name: str, *, is_resumed: bool = False) -> int:
        """Start a run and return Flower's number of it; its folder will be ``runs/NAME``."""
        return control.start_run(self.server, recipe, name, is_resumed=is_resumed)


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def recipe_of(sites: int, method: str, rounds: int = 4) -> Recipe:
    """Return a short recipe: every message costs seconds of polling and starting processes."""
    return validate(
        {
            "title": f"{method} over the network",
            "rounds": rounds,
            "data": {"name": "synthetic-skin", "sites": sites, "cases": 8, "test": 16, "size": 48},
            "noise": {"name": "contour", "setting": "skin-ne"},
            "model": {"name": "unet", "width": 8},
            "method": {"name": method, **({"t1": 2} if method == "feda3i" else {})},
            "train": {"epochs": 1, "batch": 4},
            "evaluate": {"every": 2},
            "engine": {"workers": 1, "device": "cpu", "min_sites": "all", "deadline": 300},
        }
    )


def play_trial(out: Path, sites: int = 4, method: str = "feda3i") -> None:
    """Run a recipe over the network and locally, in a folder to make, and compare."""
    from feda3i.engine.run import run

    if out.exists():
        raise RecipeError(f"'{out}' exists; remove it or choose another folder with --out")
    recipe = recipe_of(sites, method)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes are stopped
    begin = time.monotonic()
    with Consortium(out, [f"site-{k + 1:02d}" for k in range(sites)]) as consortium:
        _say(begin, f"certificates and keys for {sites} sites: {out}")
        consortium.start_server()
        _say(begin, f"server at {consortium.settings.address}, TLS, {sites} keys registered")
        for name in consortium.sites:
            consortium.start_site(name)
        number = consortium.start_run(recipe, "demo")
        _say(begin, f"{sites} nodes started, run {number}")
        for event in control.follow(consortium.server, number, consortium.runs / "demo"):
            _say(begin, control.round_line(event))
        network = (consortium.runs / "demo" / "DONE").read_text("utf-8").strip()
    local = run(recipe, out / "local")
    _say(begin, "the same recipe on the local engine")
    print(f"network  {network}\nlocal    {local.sha256}")
    if network != local.sha256:
        raise RunError("the two engines made different models")
    print("the two models are the same, bit for bit")


def _say(begin: float, text: str) -> None:
    print(f"{time.monotonic() - begin:6.1f} s  {text}", flush=True)
