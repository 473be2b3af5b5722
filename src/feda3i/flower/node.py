"""What a site decides for itself: its name, where it keeps its cases and memory, what it refuses.

All of it comes from the node's own settings (``site.toml``), which the server never sees. The
recipe comes from the server and is checked here again.
"""

from __future__ import annotations

import json
import re
import resource
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from feda3i.core.cases import Cases, Index
from feda3i.core.holdout import hold_out
from feda3i.engine.events import mistake_of
from feda3i.engine.transport import one_thread
from feda3i.errors import DataError, RecipeError, RunError, check_option
from feda3i.files import make_private
from feda3i.recipe import Recipe, validate
from feda3i.recipe.trust import registries
from feda3i.simulation.views import view_of
from feda3i.values import keywords_of, split_names

MAX_RECIPE = 2**18
SITE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""A name can be a file name, a key's name and a folder."""


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("expected an absolute folder")
    return path


_Names = Annotated[tuple[str, ...], BeforeValidator(lambda text: split_names(str(text)))]
_Limit = Annotated[float, Field(strict=True, ge=0, lt=1e9)]


class NodeSettings(BaseModel):
    """A node's own settings; ``site.toml`` spells them with hyphens."""

    model_config = ConfigDict(frozen=True, alias_generator=lambda name: name.replace("_", "-"))

    site: Annotated[str, Field(pattern=SITE_NAME)]  # as its key is registered
    state_dir: Annotated[Path, AfterValidator(_absolute)]
    """Folder for the site's memory; survives restarts of the node."""
    data_dir: Annotated[Path | None, BeforeValidator(lambda text: text or None)] = None
    """Folder of ``images/`` and ``masks/``. Without it the site draws the cases of its name from
    the recipe's synthetic data set, which ``allow_synthetic`` must permit (demo and tests)."""
    # Where and with how many threads to train. One thread repeats a local run to the bit.
    device: str = "auto"
    threads: Annotated[int, Field(strict=True, ge=1)] = 1
    # What this site agrees to, whatever the recipe of the server says; no names: all installed
    methods: _Names = ()
    models: _Names = ()
    max_epochs: _Limit = 50
    max_seconds: _Limit = 3600  # for one message
    max_memory: _Limit = 0  # GB of the process that answers a message; 0: as much as there is
    allow_synthetic: Annotated[bool, Field(strict=True)] = False

    @classmethod
    def of(cls, node_config: Mapping[str, Any]) -> NodeSettings:
        """Read the settings of ``flower-supernode --node-config``; name what is wrong."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in node_config:
            check_option("site.toml", key, known)
        try:
            return cls.model_validate(dict(node_config))
        except ValidationError as error:
            raise RecipeError(f"site.toml: {mistake_of(error)}") from None

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Bound the seconds and the memory of one answer; what needs more is a ``RunError``."""

        def stop(*_: object) -> None:
            raise _LateError

        before = resource.getrlimit(resource.RLIMIT_DATA)
        if self.max_memory:
            most = min(int(self.max_memory * 1e9), before[1] if before[1] > 0 else 2**62)
            resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
        handler = signal.signal(signal.SIGALRM, stop)
        try:
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
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            resource.setrlimit(resource.RLIMIT_DATA, before)

    def accept(self, run_config: Mapping[str, Any]) -> Recipe:
        """Return the server's recipe with this site's own device; refuse what goes too far."""
        recipe = recipe_in(run_config, engine={"device": self.device, "workers": 1})
        wanted = [("method", recipe.method.name, self.methods)]
        wanted += [("method", "redraw", self.methods)] if recipe.redraw.on else []
        wanted += [("model", recipe.model.name, self.models)]
        for section, name, agreed in wanted:
            canonical = registries()[section].canonical
            if agreed and canonical(name) not in map(canonical, agreed):
                raise RecipeError(
                    f"{section}: this site agreed to {', '.join(agreed)} ({section}s in its "
                    f"site.toml), found '{name[:80]}'"
                )
        if recipe.train.epochs > self.max_epochs:
            raise RecipeError(
                f"train.epochs: this site agreed to at most {self.max_epochs:g} (max-epochs in "
                f"its site.toml), found {recipe.train.epochs}"
            )
        return recipe

    def threading(self) -> AbstractContextManager[None]:
        """Return a context with the site's number of threads."""
        if self.threads == 1:
            return one_thread()
        torch.set_num_threads(self.threads)
        return nullcontext()

    def run_folder(self, run: str) -> Path:
        """Return this site's folder for one run; names from outside must not choose a path."""
        if not re.fullmatch(r"[0-9a-f]{16,64}", run):
            raise RecipeError("expected the run's identifier as hexadecimal digits")
        return self.state_dir / self.site / run


class _LateError(BaseException):
    """An answer takes too long; no library on the way takes this for an error of its own."""


@dataclass(frozen=True)
class SiteData:
    """The cases of one site; nobody trains on those that it keeps for validation or test."""

    train: Cases
    index: Index  # in ``train``, of those that it trains on
    validation: Index
    test: Cases | None
    classes: int


def recipe_in(run_config: Mapping[str, Any], **changes: Any) -> Recipe:
    """Return the recipe that an app carries, if all that it names is installed."""
    text = run_config.get("recipe")
    if not isinstance(text, str) or len(text) > MAX_RECIPE:
        raise RecipeError(f"expected a recipe of at most {MAX_RECIPE} bytes of JSON")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise RecipeError("the recipe is not JSON") from None
    if not isinstance(values, dict):
        raise RecipeError("the recipe is not an object")
    recipe = validate({**values, **changes})
    check_recipe(recipe)
    return recipe


def check_recipe(recipe: Recipe) -> None:
    """Raise ``RecipeError`` if a recipe names code or a folder, which each machine has its own."""
    for option in ("path", "allow_outside"):
        if option in recipe.data.options():
            raise RecipeError(
                f"data.{option}: a recipe for a consortium names no path, as every site gets it. "
                f"Each site's folder is in its site.toml, that of the server's test cases "
                f"FEDA3I_TEST in server.env"
            )
    for section in ("method", "model", "data", "noise"):
        name, registry = getattr(recipe, section).name, registries()[section]
        key = registry.canonical(name)
        if key not in (*registry.builtin, *registry.names(), "none"):
            raise RecipeError(f"{section}: sites run what is installed, found '{name[:80]}'")


def read_env(server: Path) -> dict[str, str]:
    """Return the settings in a server's ``server.env``, which shells read, too."""
    try:
        text = (server / "server.env").read_text("utf-8")
    except OSError:
        raise RecipeError(f"'{server}' is no server's folder of feda3i deploy: --server") from None
    return dict(re.findall(r'^([A-Z0-9_]+)="?([^"\n]*)"?$', text, re.MULTILINE))


def folder_options(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says about reading folders: size, channels, classes."""
    from feda3i.reading.options import DEFAULT_CLASSES, Options

    # Server and sites must agree, so that no site's dataset.json decides.
    options = {"classes": DEFAULT_CLASSES, **recipe.data.options()}
    return {name: options[name] for name in keywords_of(Options) if name in options}


def open_data(recipe: Recipe, settings: NodeSettings) -> SiteData:
    """Return the site's cases: its own folder, or its part of a synthetic data set."""
    if settings.data_dir is not None:
        return _from_folder(recipe, settings, settings.data_dir)
    if not settings.allow_synthetic:
        raise DataError("the node has no data-dir; set it in the node's own settings")
    return _from_recipe(recipe, settings.site)


def _from_folder(recipe: Recipe, settings: NodeSettings, folder: Path) -> SiteData:
    from feda3i.data.division import as_test, list_folder
    from feda3i.data.folder import load_listed
    from feda3i.reading.options import Options

    if view_of(recipe.method.name) is not None:
        raise RecipeError(f"'{recipe.method.name}' is a reference row of simulations only")
    if recipe.noise.name != "none":
        raise RecipeError(
            "noise is for simulations: the masks of a real site are taken as they are; noise=none"
        )
    listing = list_folder(folder, Options.of(folder_options(recipe)))
    cache = make_private(settings.state_dir / settings.site / "cache")
    has_test = "test" in as_test(listing.cases)
    train = load_listed(listing, "train" if has_test else None, cache)
    test = load_listed(listing, "test", cache) if has_test else None
    every, share = np.arange(len(train)), recipe.validation.share
    trained, kept = every, every[:0]
    if share:
        trained, kept = hold_out(train, every, share, recipe.seed, settings.site)
    return SiteData(train, trained, kept, test, len(listing.options.classes))


def _from_recipe(recipe: Recipe, site: str) -> SiteData:
    from feda3i.simulation.federation import federation_of
    from feda3i.simulation.views import as_trained

    if not recipe.data.name.startswith("synthetic"):
        raise RecipeError(f"expected a synthetic data set, found '{recipe.data.name}'")
    found = as_trained(federation_of(recipe), recipe.method.name)
    if site not in found.sites:
        raise DataError(f"the synthetic data set has no site '{site}'")
    kept = np.asarray(found.validation.get(site, ()), np.intp)
    return SiteData(found.train, np.asarray(found.sites[site]), kept, None, len(found.classes))
