"""A grid: which recipes are run with which methods and seeds, as one TOML file.

>>> grid = load_grid("table3-small", ["seeds=[0]", "rows=['fedavg', 'feda3i']"])
>>> [(cell.setting, cell.row) for cell in expand(grid)][:2]
[('SKIN N_S', 'fedavg'), ('SKIN N_S', 'feda3i')]
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from feda3i.data.sets import REGISTRY as DATA
from feda3i.engine.redrawing import is_wanted as redraws
from feda3i.errors import RecipeError, nearest, shown
from feda3i.methods import REGISTRY as METHODS
from feda3i.recipe import Recipe, validate
from feda3i.recipe import load as load_recipe
from feda3i.recipe.finding import find as find_recipe
from feda3i.recipe.finding import read_toml
from feda3i.recipe.loading import parse_value
from feda3i.recipe.naming import slug
from feda3i.recipe.sections import (
    PLACES,
    MethodSection,
    NoiseSection,
    RedrawSection,
    StrictSection,
)
from feda3i.values import keywords_of, mistakes

GridPoint = tuple[tuple[str, Any], ...]
"""Keys that vary, each with the value that it has at a place of the grid."""
FOLDER = Path(__file__).parent / "grids"
MOST = 20_000
"""Runs of a grid; more are surely a slip."""
CLEAN = "clean"
"""The reference row that trains on clean masks."""


class Setting(StrictSection, strict=False):
    """One column of a table: a recipe, changes to it, and the data that the user may give."""

    recipe: str
    """A .toml file (beside the grid's, or anywhere), or the name of a built-in recipe."""
    data: str = ""
    """The name that the command line gives real data under: ``data.skin=PATH``."""
    set: tuple[str, ...] = ()
    """Changes as on the command line of ``feda3i run``."""


class Grid(StrictSection):
    """Rows x settings x points x seeds; every one of them is a run."""

    model_config = ConfigDict(strict=False)

    name: str = ""
    title: str = ""
    """What the grid shows, in one line."""
    kind: Literal["table", "sweep"] = "table"
    """``sweep``: its values of ``vary`` are the horizontal axis of a figure."""
    protocol: Literal["paper", "everything"] = "paper"
    """``paper``: cases, partition and noise are those of seed 0, only the training has others."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    rows: Annotated[tuple[str, ...], Field(min_length=1)] = ("fedavg", "feda3i")
    """Methods with their options: ``fedavg``, ``feda3i,loss=dc``."""
    labels: dict[str, str] = Field(default_factory=dict)
    """What rows of your own are called in tables, ``{"mine,k=2" = "Mine"}``."""
    once: tuple[str, ...] = ()
    """Rows that are run with the first seed only."""
    reference: str = ""
    """The row that the others are compared with; by default FedA3I with the same loss."""
    needs_data: bool = False
    """Refuse to run on synthetic cases in place of the data."""
    set: tuple[str, ...] = ()
    """Changes to every recipe."""
    vary: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Further keys with the values they take, ``{"data.sites" = [10, 20]}``; keys that change
    together are one: ``{"data.cases, train.epochs" = [[8, 10], [16, 5]]}``."""
    settings: Annotated[dict[str, Setting], Field(min_length=1)]
    given: dict[str, str] = Field(default_factory=dict)
    """Places of data by name, from the command line."""


@dataclass(frozen=True)
class GridCell:
    """One run of a grid and its place in it."""

    setting: str
    row: str
    point: GridPoint
    seed: int
    recipe: Recipe
    digest: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """Return the name of the run's folder and of its result: words, then a hash."""
        options = [f"{key.rpartition('.')[2]} {value}" for key, value in self.point]
        parts = [self.setting, self.data, self.row, *options, f"seed {self.seed}"]
        words = "-".join(filter(None, (slug(part.lower()) for part in parts)))
        return f"{words[:90].rstrip('-.')}-{self.digest[:10]}"

    @property
    def data(self) -> str:
        """Return the name of the data set."""
        return self.recipe.data.name.rpartition(":")[2]


def built_in_grids() -> list[str]:
    """Return the names of the grids that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def find_grid(source: str) -> Path:
    """Return the path of a grid: a file, or the name of a built-in grid."""
    path, inside = Path(source), FOLDER / f"{source}.toml"
    if path.is_file():
        return path
    if inside.is_file():
        return inside
    raise RecipeError(
        f"there is no grid '{source}'{nearest(source, built_in_grids()) or '.'} "
        f"Give the path of a .toml file or one of: {', '.join(built_in_grids())}"
    )


def load_grid(source: str, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid and apply ``key=value``: keys of the grid, places of data, recipe keys."""
    file = find_grid(source)
    values: dict[str, Any] = {"name": file.stem, **read_toml(file)}
    settings = values.get("settings")
    tables = settings.values() if isinstance(settings, dict) else ()
    places = {str(s.get("data", "")) for s in tables if isinstance(s, dict)} - {""}
    for override in overrides:
        key, separator, text = override.partition("=")
        head, _, rest = key.strip().partition(".")
        if not separator or not key:
            raise RecipeError(f"expected key=value, found '{override}'")
        if head == "data" and rest in places:
            values.setdefault("given", {})[rest] = text.strip()
        elif head == "data" and rest not in PLACES and Path(text.strip()).is_dir():
            known = ", ".join(f"data.{name}=DIR" for name in sorted(places)) or "none"
            raise RecipeError(f"the grid '{file.stem}' has no data '{rest}'; it takes: {known}")
        elif key in Grid.model_fields and key not in ("settings", "given", "name"):
            values[key] = parse_value(text.strip())
        else:
            values["set"] = [*values.get("set", ()), override]
    try:
        grid = Grid.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"'{file}': {mistakes(error)}") from None
    for name, place in grid.given.items():
        if not Path(place).exists():
            raise RecipeError(f"data.{name}: there is nothing at '{place}'")
    return _beside(grid, file.parent)


def _beside(grid: Grid, folder: Path) -> Grid:
    """Return the grid with full paths for recipes that lie beside it."""
    found = dict(grid.settings)
    for name, setting in grid.settings.items():
        beside = folder / setting.recipe
        if setting.recipe.endswith(".toml") and beside.is_file():
            found[name] = setting.model_copy(update={"recipe": str(beside)})
    return grid.model_copy(update={"settings": found})


def expand(grid: Grid, real: Iterable[str] | None = None) -> list[GridCell]:
    """Return every run of a grid: seed by seed, so that a part of a grid is whole seeds.

    Data named in ``real`` count as given even where this machine has no place for them, because
    tables are made without the data; by default those of the command line do.
    """
    names = set(grid.given) if real is None else set(real)
    missing = sorted({s.data for s in grid.settings.values()} - names - {""})
    if grid.needs_data and missing and real is None:
        words = " ".join(f"data.{name}=PATH" for name in missing)
        raise RecipeError(f"the grid '{grid.name}' needs real data; add {words}")
    count = len(grid.rows) * len(grid.settings) * len(grid.seeds)
    count *= math.prod(len(values) for values in grid.vary.values())
    if count > MOST:
        raise RecipeError(f"a grid: expected at most {MOST:,} runs, found {count:,}")
    points: list[GridPoint] = [
        tuple(chain.from_iterable(map(_pairs, grid.vary, values)))
        for values in product(*grid.vary.values())
    ]
    made = {
        (name, point, row): _recipe(grid, name, row, point, names)
        for name in grid.settings
        for point in points
        for row in grid.rows
    }
    return [
        _cell(recipe, name, row, point, seed)
        for seed in grid.seeds
        for (name, point, row), recipe in made.items()
        if seed == grid.seeds[0] or row not in grid.once
    ]


def _pairs(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return one key with its value, or several that change together.

    >>> _pairs("data.cases, train.epochs", [8, 10])
    [('data.cases', 8), ('train.epochs', 10)]
    """
    keys = [part.strip() for part in key.split(",")]
    if len(keys) == 1:
        return [(key, value)]
    if not isinstance(value, list | tuple) or len(value) != len(keys):
        raise RecipeError(f"vary: expected {len(keys)} values for '{key}', found {shown(value)}")
    return list(zip(keys, value, strict=True))


def _recipe(grid: Grid, name: str, row: str, point: GridPoint, real: set[str]) -> Recipe:
    """Return the recipe of a place in the grid, for any seed."""
    setting = grid.settings[name]
    method, *options = row.split(",")
    own, common = _split(point)
    varied = {key for key, _ in point}  # what varies is not what the grid sets
    kept = [c for c in (*setting.set, *grid.set) if c.partition("=")[0].strip() not in varied]
    changes = [*_data_change(setting, grid, real), *kept, *common]
    # As on the command line: method=NAME takes the recipe's options for it, ours come last.
    own_method = read_toml(find_recipe(setting.recipe)).get("method", {}).get("name", "")
    if method != str(own_method):
        changes.append(f"method={method}")
    # In the method's own name, so that a row wins over what the grid sets for the method.
    place = method if METHODS.canonical(method) in METHODS.names() else "method"
    changes += [f"{place}.{option.strip()}" for option in [*options, *own.get(method, [])]]
    recipe = load_recipe(setting.recipe, changes, tell=lambda _: None)  # one list for all rows
    return _fixed(recipe) if grid.protocol == "paper" else recipe


def _cell(recipe: Recipe, name: str, row: str, point: GridPoint, seed: int) -> GridCell:
    title = f"{name}, {row}, seed {seed}"
    recipe = recipe.model_copy(update={"seed": seed, "title": title})
    return GridCell(name, row, point, seed, recipe, identity(recipe))


def _split(point: GridPoint) -> tuple[dict[str, list[str]], list[str]]:
    """Return options of single methods (``feda3i.r``) by method, and changes for all of them."""
    own: dict[str, list[str]] = {}
    common: list[str] = []
    for key, value in point:
        head, _, option = key.partition(".")
        method = METHODS.canonical(head)
        if option and head not in Recipe.model_fields and method in METHODS.names():
            own.setdefault(method, []).append(f"{option}={_value(value)}")
        else:
            common.append(f"{key}={_value(value)}")
    return own, common


def identity(recipe: Recipe) -> str:
    """Return the hash by which a run is known: recipes with the same one train the same model.

    Defaults that are written out make no difference, nor do options of redrawing where nothing is
    redrawn, nor the noise for a row that trains on clean masks. Plug-ins are not looked at: results
    may come from elsewhere, and to name code must not run it.
    """
    name, options = METHODS.canonical(recipe.method.name), recipe.method.options()
    if name in METHODS.builtin:
        fields = METHODS.get(name).model_fields
        own = {k: v for k, v in options.items() if k not in fields or fields[k].default != v}
        recipe = recipe.model_copy(update={"method": MethodSection(name=name, **own)})
    if name == CLEAN:
        recipe = recipe.model_copy(update={"noise": NoiseSection(name="any")})
    if not redraws(recipe):
        recipe = recipe.model_copy(update={"redraw": RedrawSection()})
    return recipe.digest()


def _data_change(setting: Setting, grid: Grid, real: set[str]) -> list[str]:
    if setting.data and setting.data not in real:
        return ["data=synthetic"]
    place = grid.given.get(setting.data)
    return [f"data={Path(place).resolve()}"] if place else []


def _fixed(recipe: Recipe) -> Recipe:
    """Return the recipe with data and noise of seed 0, where it has not set another itself."""
    values = recipe.to_dict()
    if "seed" in keywords_of(DATA.get(recipe.data.name)):
        values["data"].setdefault("seed", 0)
    if recipe.noise.name != "none":
        values["noise"].setdefault("seed", 0)
    return validate(values)


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def shard(cells: Sequence[GridCell], family: Sequence[str], part: str) -> list[GridCell]:
    """Return the part ``I/N`` of a grid's runs; runs that share their beginning stay together.

    Cells with the same name in ``family`` share their beginning. Families are dealt out in turn.

    >>> shard(["a", "b", "c", "d"], ["x", "x", "y", "z"], "1/2")
    ['a', 'b', 'd']
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", part)
    number, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= parts:
        raise RecipeError(f"--shard: expected I/N with I from 1 to N, e.g. 1/4, found '{part}'")
    turns = {name: turn for turn, name in enumerate(dict.fromkeys(family))}
    pairs = zip(cells, family, strict=True)
    return [cell for cell, name in pairs if turns[name] % parts == number - 1]
