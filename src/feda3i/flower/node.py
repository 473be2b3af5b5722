"""What a site decides for itself: its name, where it keeps its cases and memory, what it refuses.

All of it comes from the node's own settings (``flower-supernode --node-config``), which the server
never sees. The recipe comes from the server and is checked here again.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from feda3i.core.cases import Cases, Federation, Index
from feda3i.core.holdout import hold_out
from feda3i.errors import DataError, RecipeError, RunError, shown
from feda3i.files import make_private
from feda3i.recipe import Recipe, validate
from feda3i.recipe.trust import registries
from feda3i.simulation.views import view_of
from feda3i.values import keywords_of, split_names

MAX_RECIPE = 2**18
SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KEYS = (
    "site",
    "data-dir",
    "state-dir",
    "device",
    "threads",
    "methods",
    "models",
    "max-epochs",
    "max-seconds",
    "max-memory",
    "allow-plugins",
    "allow-synthetic",
)


@dataclass(frozen=True)
class NodeSettings:
    """A node's own settings."""

    site: str  # as the server registered its key
    state: Path  # folder for the site's memory; survives restarts of the node
    data: Path | None = None
    """Folder of ``images/`` and ``masks/``. Without it the site draws the cases of its name from
    the recipe's synthetic data set, which ``allow_synthetic`` must permit (demo and tests)."""
    # Where and with how many threads to train. One thread repeats a local run to the bit.
    device: str = "auto"
    threads: int = 1
    # What this site agrees to, whatever the recipe of the server says; no names: all installed
    methods: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_epochs: float = 50
    max_seconds: float = 3600  # for one message
    max_memory: float = 0  # GB of the process that answers a message; 0: as much as there is
    allow_plugins: bool = False  # whether a recipe may name a Python file or module of this machine
    allow_synthetic: bool = False

    @classmethod
    def of(cls, node_config: Mapping[str, Any]) -> NodeSettings:
        """Read the settings of ``flower-supernode --node-config``; name what is wrong."""
        unknown = sorted(set(node_config) - set(_KEYS))
        if unknown:
            raise RecipeError(f"node-config: unknown key '{unknown[0]}'; known: {', '.join(_KEYS)}")
        site = str(node_config.get("site", ""))
        if not SITE_NAME.fullmatch(site):
            raise RecipeError(
                f"node-config: expected site=NAME of letters, digits, - and _, found '{site}'"
            )
        state = Path(str(node_config.get("state-dir", "")))
        if not state.is_absolute():
            raise RecipeError(f"node-config: expected an absolute state-dir, found '{state}'")
        data = str(node_config.get("data-dir", ""))
        return cls(
            site=site,
            state=state,
            data=Path(data) if data else None,
            device=str(node_config.get("device", "auto")),
            threads=int(_number(node_config, "threads", 1)),
            methods=split_names(str(node_config.get("methods", ""))),
            models=split_names(str(node_config.get("models", ""))),
            max_epochs=_number(node_config, "max-epochs", cls.max_epochs),
            max_seconds=_number(node_config, "max-seconds", cls.max_seconds),
            max_memory=_number(node_config, "max-memory", cls.max_memory),
            allow_plugins=node_config.get("allow-plugins") is True,
            allow_synthetic=node_config.get("allow-synthetic") is True,
        )

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Bound the seconds and the memory of one answer; what needs more is a ``RunError``."""
        is_main = threading.current_thread() is threading.main_thread()

        def stop(*_: object) -> None:
            raise _LateError

        before = resource.getrlimit(resource.RLIMIT_DATA)
        if self.max_memory:
            most = min(int(self.max_memory * 1e9), before[1] if before[1] > 0 else 2**62)
            resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
        handler = signal.signal(signal.SIGALRM, stop) if is_main else None
        try:
            if is_main:  # signals reach no other thread
                signal.setitimer(signal.ITIMER_REAL, self.max_seconds)
            yield
        except _LateError:
            raise RunError(
                f"it took more than this site's max-seconds ({self.max_seconds:g})"
            ) from None
        except Exception as error:  # torch says it in a RuntimeError, others pass that on
            is_short = isinstance(error, MemoryError) or "allocate memory" in str(error)
            if self.max_memory and is_short:
                raise RunError(
                    f"it needs more than this site's max-memory ({self.max_memory:g} GB)"
                ) from None
            raise
        finally:
            if is_main:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, handler)
            resource.setrlimit(resource.RLIMIT_DATA, before)

    def check_agreed(self, recipe: Recipe) -> None:
        """Raise ``RecipeError`` if a recipe asks for more than this site agreed to."""
        wanted = [("methods", "method", recipe.method.name, self.methods)]
        wanted += [("models", "model", recipe.model.name, self.models)]
        if "then" in recipe.method.options():
            wanted += [("methods", "method", str(recipe.method.options()["then"]), self.methods)]
        for key, section, name, agreed in wanted:
            canonical = registries()[section].canonical
            if agreed and canonical(name) not in map(canonical, agreed):
                raise RecipeError(
                    f"{section}: this site agreed to {', '.join(agreed)} ({key} in its site.toml), "
                    f"found '{name[:80]}'"
                )
        if recipe.train.epochs > self.max_epochs:
            raise RecipeError(
                f"train.epochs: this site agreed to at most {self.max_epochs:g} (max-epochs in "
                f"its site.toml), found {recipe.train.epochs}"
            )

    def threading(self) -> AbstractContextManager[None]:
        """Return a context with the site's number of threads."""
        from feda3i.engine.transport import one_thread

        if self.threads == 1:
            return one_thread()
        import torch

        torch.set_num_threads(self.threads)
        return nullcontext()

    def run_folder(self, run: str) -> Path:
        """Return this site's folder for one run; names from outside must not choose a path."""
        if not re.fullmatch(r"[0-9a-f]{16,64}", run):
            raise RecipeError("expected the run's identifier as hexadecimal digits")
        return self.state / self.site / run


class _LateError(BaseException):
    """An answer takes too long; no library on the way takes this for an error of its own."""


def _number(node_config: Mapping[str, Any], key: str, default: float) -> float:
    value = node_config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise RecipeError(f"node-config: expected a number as {key}, found {shown(value)}")
    return value


@dataclass(frozen=True)
class SiteData:
    """The cases of one site: those it trains on, those it keeps, and its own test cases.

    ``index`` and ``validation`` are positions in ``train``; nobody trains on the latter.
    """

    train: Cases
    index: Index
    classes: int
    test: Cases | None = None
    validation: Index = field(default_factory=lambda: np.zeros(0, np.intp))


def recipe_at_site(text: object, settings: NodeSettings) -> Recipe:
    """Return the server's recipe if this site may carry it out, with this site's own device."""
    if not isinstance(text, str) or len(text) > MAX_RECIPE:
        raise RecipeError(f"expected a recipe of at most {MAX_RECIPE} bytes of JSON")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise RecipeError("the recipe is not JSON") from None
    if not isinstance(values, dict):
        raise RecipeError("the recipe is not an object")
    recipe = validate({**values, "engine": {"device": settings.device, "workers": 1}})
    check_names(recipe, settings.allow_plugins)
    settings.check_agreed(recipe)
    return recipe


def check_names(recipe: Recipe, allow_plugins: bool = False) -> None:
    """Raise ``RecipeError`` if a recipe names code instead of something that is installed."""
    if allow_plugins:
        return
    for section in ("method", "model", "data"):
        name, registry = getattr(recipe, section).name, registries()[section]
        key = registry.canonical(name)
        if key not in registry.builtin and key not in registry.names():
            raise RecipeError(
                f"{section}: sites run what is installed, found '{name[:80]}'; a site that wants "
                f"to run a file or module of its own sets allow-plugins=true in its node-config"
            )
    if ":" in recipe.noise.name:  # a plug-in; other names are looked up among the installed ones
        raise RecipeError(f"noise: sites run what is installed, found '{recipe.noise.name[:80]}'")


def read_env(server: Path) -> dict[str, str]:
    """Return the settings in a server's ``server.env``, which shells read, too."""
    try:
        text = (server / "server.env").read_text()
    except OSError:
        raise RecipeError(f"'{server}' is no server's folder of feda3i deploy: --server") from None
    return dict(re.findall(r'^([A-Z0-9_]+)="?([^"\n]*)"?$', text, re.MULTILINE))


def folder_options(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says about reading folders: size, channels, classes, aspect."""
    from feda3i.reading.options import DEFAULT_CLASSES, Options

    # Server and sites must agree, so that no site's dataset.json decides.
    options = {"classes": DEFAULT_CLASSES, **recipe.data.options()}
    for name in ("path", "allow_outside"):
        if name in options:
            raise RecipeError(
                f"data.{name}: a recipe for a consortium names no path; each site has its own"
            )
    return {name: options[name] for name in keywords_of(Options) if name in options}


def open_data(recipe: Recipe, settings: NodeSettings) -> SiteData:
    """Return the site's cases: its own folder, or its part of a synthetic data set."""
    if settings.data is not None:
        return _from_folder(recipe, settings)
    if not settings.allow_synthetic:
        raise DataError("the node has no data-dir; set it in the node's own settings")
    return _from_recipe(recipe, settings.site)


def _from_folder(recipe: Recipe, settings: NodeSettings) -> SiteData:
    from feda3i.data.division import as_test, list_folder
    from feda3i.data.folder import load_listed
    from feda3i.reading.options import Options

    if view_of(recipe.method.name) is not None:
        raise RecipeError(f"'{recipe.method.name}' is a reference row of simulations only")
    if recipe.noise.name != "none":
        raise RecipeError(
            "noise is for simulations: the masks of a real site are taken as they are; noise=none"
        )
    options = folder_options(recipe)
    assert settings.data is not None
    path, cache = settings.data, settings.state / settings.site / "cache"
    make_private(cache)
    listing = list_folder(path, Options.of(options))
    has_test = "test" in as_test(listing.cases)
    train = load_listed(listing, "train" if has_test else None, cache)
    test = load_listed(listing, "test", cache) if has_test else None
    every, share = np.arange(len(train)), recipe.validation.share
    trained, kept = (
        hold_out(train, every, share, recipe.seed, settings.site) if share else (every, every[:0])
    )
    return SiteData(train, trained, len(listing.options.classes), test, kept)


def _from_recipe(recipe: Recipe, site: str) -> SiteData:
    if not recipe.data.name.startswith("synthetic") or "path" in recipe.data.options():
        raise RecipeError(f"expected a synthetic data set, found '{recipe.data.name}'")
    federation = _synthetic(json.dumps(recipe.to_dict(), sort_keys=True))
    if site not in federation.sites:
        raise DataError(f"the synthetic data set has no site '{site}'")
    index, kept = (
        np.asarray(part[site]) if site in part else np.zeros(0, np.intp)
        for part in (federation.sites, federation.validation)
    )
    return SiteData(federation.train, index, len(federation.classes), validation=kept)


@lru_cache(maxsize=2)  # a pure function of the recipe; saves time where many nodes share a process
def _synthetic(text: str) -> Federation:
    from feda3i.simulation.federation import federation_of
    from feda3i.simulation.views import as_trained

    recipe = validate(json.loads(text))
    return as_trained(federation_of(recipe), recipe.method.name)
