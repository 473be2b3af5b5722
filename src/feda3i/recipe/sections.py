"""The sections of a recipe: every key with its type, its default and its meaning."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from feda3i.core.normalise import Over, Rule
from feda3i.core.training import Training
from feda3i.errors import RecipeError

PLACES = ("path",)  # options of [data] that say where the data lie, not what they are
SILENT = (
    *("noise.draw", "validation", "redraw", "train.optimiser", "train.momentum", "train.clip"),
    *("train.weight_decay", "train.schedule", "train.warm_up", "train.augment", "train.precision"),
)
"""Keys and sections that a recipe's plain values leave out where they are as by default: a new one
changes no hash of a recipe or model that does not use it."""
DRAWN = ("mu_max", "mu_min", "sigma_max", "p_d")  # keys of [noise] to draw annotators by


class StrictSection(BaseModel):
    """A part of a recipe in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NamedSection(BaseModel):
    """A part of a recipe that names a thing; the other keys are that thing's own options."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str

    def options(self) -> dict[str, Any]:
        """Return the keys beyond those that every section of this kind has."""
        return dict(self.model_extra or {})


class DataSection(NamedSection):
    """Where the cases come from: a registered data set, a plug-in, or a path to a folder."""

    name: str = "synthetic-skin"
    """A data set (``feda3i list``), a plug-in (``file.py:function``), or the path of a folder."""
    synthetic: str | None = None
    """The synthetic family that stands in for this data set with ``data=synthetic``."""
    normalise: Rule | None = None
    """How values become what the network sees: ``none``, ``zscore`` or ``percentiles`` of each
    case, a fixed ``window``, or ``constant`` mean and standard deviation of the data set. Not set:
    ``zscore`` where values are kept (``data.values``), else ``none``."""
    normalise_over: Over | None = None
    """Voxels that a case's mean or percentiles are of: ``all``, or those that are not 0."""
    normalise_by: Annotated[tuple[float, float], Field(strict=False)] | None = None
    """Two percentiles (usually 0.5 and 99.5), the ends of the window, or mean and deviation."""


class AnnotatorSection(StrictSection):
    """One annotator's mean offset and spread, px at 256 px a side."""

    mu: float
    sigma: Annotated[float, Field(ge=0)]


class NoiseSection(NamedSection):
    """How the masks of the training cases are changed; ``none`` leaves them as they are."""

    name: str = "none"
    """A noise model (``feda3i list``), a plug-in (``file.py:Class``), or ``none``."""
    setting: str | None = None
    """One of the paper's settings: skin-ns, skin-ne, breast-ns, breast-ne; or none."""
    mu_max: Annotated[float, Field(ge=0)] | None = None
    """Largest mean offset of a site that draws too large, px at 256 px a side."""
    mu_min: Annotated[float, Field(le=0)] | None = None
    """Most negative mean offset of a site that draws too small, px at 256 px a side."""
    sigma_max: Annotated[float, Field(ge=0)] | None = None
    """Largest spread of a site's offsets, px at 256 px; sites get half to all of it."""
    p_d: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of sites that draw too large."""
    draw: Literal["exact", "bernoulli", "published"] = "exact"
    """Draw exactly that share of the sites, each site by chance, or the authors' own annotators of
    SKIN (the same for every seed)."""
    annotators: dict[str, AnnotatorSection] | None = None
    """Annotators by site instead of drawn ones: {site-01 = {mu = 5, sigma = 2}, ...}."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seed of annotators and noisy masks, if it is not to be the run's."""
    drawn_at: Annotated[int, Field(ge=16, le=4096)] | None = None
    """Side at which noise is drawn, px: masks are enlarged to it and brought back. 256: as the
    paper draws, whatever the size of the cases."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        given = ("annotators", "setting", *DRAWN)
        ways = [name for name in given if getattr(self, name) not in (None, "none")]
        if len(ways) > 1 and ways[0] not in DRAWN:
            raise RecipeError(
                f"noise: expected a setting, or {', '.join(DRAWN)}, or annotators; found {ways[0]} "
                f"and {ways[1]}, which contradict each other (noise.setting=none takes it away)"
            )
        return self

    def options(self) -> dict[str, Any]:
        """Return the options of the noise model."""
        return super().options() | ({"drawn_at": self.drawn_at} if self.drawn_at else {})


class ModelSection(NamedSection):
    """The network and its options, e.g. ``width`` and ``input`` of the U-Net."""

    name: str = "unet"
    """A network (``feda3i list``) or a plug-in (``file.py:factory``)."""


class MethodSection(NamedSection):
    """The method and its hyper-parameters."""

    name: str = "fedavg"
    """A method (``feda3i list``) or a plug-in (``file.py:Class``)."""


class EngineSection(StrictSection):
    """Where sites run, how long the server waits, and how it guards itself against a site.

    Only ``CHANGES_NUMBERS`` change a number of a complete run, and none does by default.
    """

    workers: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = "auto"
    """Processes that train sites side by side (local engine); ``auto``: one per core."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """``auto`` (GPUs if there are any), ``cpu``, ``cuda`` or ``cuda:1``; workers are spread over
    all GPUs unless one is named."""
    compile: bool = False
    """Let ``torch.compile`` translate the network first (local engine); last digits change."""
    deterministic: bool = False
    """Ask torch for deterministic operations only; it warns of each that has no such version."""
    min_sites: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Sites that must answer for a round to count; with fewer the run stops."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the sites that train in a round, drawn anew each time and rounded up; surveys and
    statistics still ask everybody, and so do rounds for which the method itself says who trains."""
    deadline: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds that a round may take before missing sites are left out (network engine)."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The most that one site may weigh at any stage; the rest is shared out. 1: no cap."""
    guard: Literal["auto", "off", "leave-out"] = "auto"
    """``leave-out``: an update far larger than the median of its round does not count, and a merge
    after which the sites' losses explode is undone; ``auto``: over the network."""
    guard_factor: Annotated[float, Field(ge=2, allow_inf_nan=False)] = 10.0
    """Times the median norm of a round's updates above which the guard acts."""
    track: Literal["none", "tensorboard", "mlflow", "both"] = "none"
    """Where the run copies its numbers by round and site while it works (extra ``tracking``)."""

    def quorum(self, asked: int) -> int:
        """Return how many sites must answer; a plan may ask fewer than all."""
        return asked if self.min_sites == "all" else min(self.min_sites, asked)

    def guards(self, is_remote: bool) -> bool:
        """Return whether sites are guarded against one of them."""
        return self.guard == "leave-out" or (self.guard == "auto" and is_remote)

    def sinks(self) -> tuple[str, ...]:
        """Return the names of the sinks to feed."""
        return tuple(name for name in ("tensorboard", "mlflow") if self.track in (name, "both"))


CHANGES_NUMBERS = ("fraction", "compile", "max_share", "guard", "guard_factor")


def engine_changes(engine: Any) -> dict[str, Any]:
    """Return those values of an engine section that change numbers: none if all are as by default.

    >>> engine_changes({"workers": 2, "guard": "leave-out", "compile": False})
    {'guard': 'leave-out'}
    """
    usual = EngineSection().model_dump(include=set(CHANGES_NUMBERS))
    given = engine if isinstance(engine, dict) else {}
    return {key: given[key] for key in usual if given.get(key, usual[key]) != usual[key]}


def without_machine(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's values without those of its engine that change no number."""
    rest = {key: value for key, value in values.items() if key != "engine"}
    engine = engine_changes(values.get("engine"))
    return {**rest, "engine": engine} if engine else rest


class EvaluateSection(StrictSection):
    """When the global model is scored on the test cases; the last round always is."""

    every: Annotated[int, Field(ge=1)] = 1
    """Rounds between two scorings of the test cases."""
    distances: bool = False
    """Also score HD95 and ASSD in every evaluation, not only in the last."""


class ValidationSection(StrictSection):
    """Cases that sites keep for validation, and what the scores on them decide."""

    share: Annotated[float, Field(ge=0, le=0.9)] = 0.0
    """Share of each site's training cases that nobody trains on, patients kept whole; 0: none."""
    every: Annotated[int, Field(ge=1)] = 1
    """Rounds between two scorings of the validation cases; the last round always is scored."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Scorings in a row without a better one after which the run stops; 0: it never does."""


class RedrawSection(StrictSection):
    """Masks redrawn before the method sees them, by how far each site draws beside the others."""

    on: bool = False
    """Move every site's contours by its own offset; ``method=redraw`` is short for FedAvg on these.
    """
    trusted: str | Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Whose masks are right: a folder of cases that the server can read, or names of sites."""
    b0: Annotated[
        tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(strict=False)
    ] = ()
    """In place of trusted masks, their offset from the border in the image: px at 256, by class."""
    b0_error: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """Standard error of ``b0``, px at 256."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.b0 and self.trusted:
            raise ValueError("expected b0 or trusted, found both; leave one out")
        return self


class Recipe(StrictSection):
    """Everything that determines a run."""

    title: str = ""
    """What console and report call the run."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of every draw: partition, noise, initialisation, order of cases."""
    rounds: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Rounds of training and averaging."""
    data: DataSection = DataSection()
    noise: NoiseSection = NoiseSection()
    model: ModelSection = ModelSection()
    method: MethodSection = MethodSection()
    methods: dict[str, dict[str, Any]] = {}
    """Options that a method takes when it is chosen with ``method=NAME``, by name."""
    train: Training = Training()
    redraw: RedrawSection = RedrawSection()
    validation: ValidationSection = ValidationSection()
    evaluate: EvaluateSection = EvaluateSection()
    engine: EngineSection = EngineSection()

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values, without keys that are not set or silent."""
        plain = self.model_dump(mode="json", exclude_none=True)
        usual = type(self)().model_dump(mode="json")
        for key in SILENT:
            section, _, name = key.rpartition(".")
            inner, default = (plain[section], usual[section]) if section else (plain, usual)
            if inner.get(name) == default[name]:
                inner.pop(name, None)
        return plain

    def shared(self) -> dict[str, Any]:
        """Return the recipe without the places of this machine: what may be passed on."""
        plain = self.to_dict()
        data = plain["data"].items()
        plain["data"] = {k: v for k, v in data if not (k in PLACES and isinstance(v, str))}
        if isinstance(plain.get("redraw", {}).get("trusted"), str):
            plain["redraw"] = {k: v for k, v in plain["redraw"].items() if k != "trusted"}
        return plain

    def digest(self) -> str:
        """Return a hash of all that may change a number of the run (not of places)."""
        plain = without_machine(self.shared())
        plain = {key: value for key, value in plain.items() if key not in ("title", "methods")}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def to_toml(self) -> str:
        """Return the recipe as a TOML file."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())
