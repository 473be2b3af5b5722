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
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from feda3i.core.cases import Federation
from feda3i.core.holdout import hold_out
from feda3i.engine.events import mistake_of
from feda3i.errors import DataError, RecipeError, RunError, check_option
from feda3i.files import make_private
from feda3i.recipe import Recipe, validate
from feda3i.recipe.trust import registries
from feda3i.simulation.views import view_of
from feda3i.values import keywords_of, split_names

MAX_RECIPE = 2**18
SITE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # of a file, a key and a folder


def _absolute(path: Path) -> Path:
    if path.is_absolute():
        return path
    raise ValueError("expected an absolute folder")


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
        for key in node_config:
            check_option("site.toml", key, [str(one.alias) for one in cls.model_fields.values()])
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
            limit = f"max-seconds ({self.max_seconds:g})"
            raise RunError(f"it took more than this site's {limit}") from None
        except Exception as error:  # torch says it in a RuntimeError, others pass that on
            is_short = isinstance(error, MemoryError) or "allocate memory" in str(error)
            if not self.max_memory or not is_short:
                raise
            limit = f"max-memory ({self.max_memory:g} GB)"
            raise RunError(f"it needs more than this site's {limit}") from None
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
                known = f"{', '.join(agreed)} ({section}s in its site.toml)"
                raise RecipeError(f"{section}: this site agreed to {known}, found '{name[:80]}'")
        if (epochs := recipe.train.epochs) > self.max_epochs:
            most = f"at most {self.max_epochs:g} (max-epochs in its site.toml)"
            raise RecipeError(f"train.epochs: this site agreed to {most}, found {epochs}")
        return recipe

    def run_folder(self, run: str) -> Path:
        """Return this site's folder for one run; names from outside must not choose a path."""
        if not re.fullmatch(r"[0-9a-f]{16,64}", run):
            raise RecipeError("expected the run's identifier as hexadecimal digits")
        return self.state_dir / self.site / run


class _LateError(BaseException):
    """An answer takes too long; no library on the way takes this for an error of its own."""


def recipe_in(run_config: Mapping[str, Any], **changes: Any) -> Recipe:
    """Return the recipe that an app carries, if all that it names is installed."""
    text = run_config.get("recipe")
    if not isinstance(text, str) or len(text) > MAX_RECIPE:
        raise RecipeError(f"expected a recipe of at most {MAX_RECIPE} bytes of JSON")
    try:
        values = {**json.loads(text), **changes}
    except (ValueError, RecursionError, TypeError):
        raise RecipeError("the recipe is no object of JSON") from None
    recipe = validate(values)
    check_recipe(recipe)
    return recipe


def check_recipe(recipe: Recipe) -> None:
    """Raise ``RecipeError`` if a recipe names code or a folder, which each machine has its own."""
    for option in {"path", "allow_outside"} & set(recipe.data.options()):
        raise RecipeError(
            f"data.{option}: a recipe for a consortium names no path, as every site gets it. Each "
            f"site's folder is in its site.toml, that of test cases FEDA3I_TEST in server.env"
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


def open_data(recipe: Recipe, settings: NodeSettings) -> Federation:
    """Return the site's cases: its own folder, or a synthetic data set without its test cases."""
    from feda3i.data.division import as_test, list_folder
    from feda3i.data.folder import load_listed
    from feda3i.reading.options import Options

    if settings.data_dir is None:
        return _synthetic(recipe, settings)
    site, share = settings.site, recipe.validation.share
    if view_of(recipe.method.name) is not None:
        raise RecipeError(f"'{recipe.method.name}' is a reference row of simulations only")
    if recipe.noise.name != "none":
        raise RecipeError("noise is for simulations, real masks are taken as they are; noise=none")
    listing = list_folder(settings.data_dir, Options.of(folder_options(recipe)))
    cache = make_private(settings.state_dir / site / "cache")
    has_test = "test" in as_test(listing.cases)
    train = load_listed(listing, "train" if has_test else None, cache)
    test = load_listed(listing, "test", cache) if has_test else train.take(slice(0))
    trained, kept = hold_out(train, np.arange(len(train)), share, recipe.seed, site)
    classes = tuple(listing.options.classes)
    return Federation(train, {site: trained}, test, classes, validation={site: kept})


def _synthetic(recipe: Recipe, settings: NodeSettings) -> Federation:
    from feda3i.simulation.federation import federation_of
    from feda3i.simulation.views import as_trained

    if not settings.allow_synthetic:
        raise DataError("the node has no data-dir; set it in the node's own settings")
    if not recipe.data.name.startswith("synthetic"):
        raise RecipeError(f"expected a synthetic data set, found '{recipe.data.name}'")
    found = as_trained(federation_of(recipe), recipe.method.name)
    if settings.site not in found.sites:
        raise DataError(f"the synthetic data set has no site '{settings.site}'")
    return replace(found, test=found.train.take(slice(0)))
