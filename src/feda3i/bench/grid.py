"""A grid: which recipes are run with which methods and seeds, as one TOML file.

>>> grid = load_grid("table3-small", ["seeds=[0]", "rows=['fedavg', 'feda3i']"])
>>> [(cell.setting, cell.row) for cell in expand(grid)][:2]
[('SKIN N_S', 'fedavg'), ('SKIN N_S', 'feda3i')]
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from feda3i.data.sets import REGISTRY as DATA
from feda3i.engine.redrawing import is_wanted as redraws
from feda3i.errors import RecipeError, shown, unknown
from feda3i.methods import REGISTRY as METHODS
from feda3i.recipe import Recipe, validate
from feda3i.recipe import load as load_recipe
from feda3i.recipe.finding import read_toml
from feda3i.recipe.loading import parse_value, slug
from feda3i.recipe.sections import MethodSection, NoiseSection, RedrawSection, StrictSection
from feda3i.values import keywords_of, mistakes

GridPoint = tuple[tuple[str, Any], ...]
"""Keys that vary, each with the value that it has at a place of the grid."""
FOLDER = Path(__file__).parent / "grids"
MOST = 20_000  # runs of a grid; more are surely a slip
CLEAN = "clean"  # the reference row that trains on clean masks


class Setting(StrictSection, strict=False):
    """One column of a table: a recipe, changes to it, and the data that the user may give."""

    recipe: str
    """A .toml file (beside the grid's, or anywhere), or the name of a built-in recipe."""
    data: str = ""
    """The name that the command line gives real data under: ``data.skin=PATH``."""
    set: tuple[str, ...] = ()
    """Changes as on the command line of ``feda3i run``."""


class Grid(StrictSection, strict=False):
    """Rows x settings x points x seeds; every one of them is a run."""

    name: str = ""
    title: str = ""
    kind: Literal["table", "sweep"] = "table"
    """``sweep``: its values of ``vary`` are the horizontal axis of a figure."""
    protocol: Literal["paper", "everything"] = "paper"
    """``paper``: cases, partition and noise are those of seed 0, only the training has others."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    rows: Annotated[tuple[str, ...], Field(min_length=1)] = ("fedavg", "feda3i")
    """Methods with their options: ``fedavg``, ``feda3i,loss=dc``."""
    labels: dict[str, str] = Field({})
    """What rows of your own are called in tables, ``{"mine,k=2" = "Mine"}``."""
    once: tuple[str, ...] = ()
    """Rows that are run with the first seed only."""
    reference: str = ""
    """The row that the others are compared with; by default FedA3I with the same loss."""
    needs_data: bool = False
    """Refuse to run on synthetic cases in place of the data."""
    set: tuple[str, ...] = ()
    """Changes to every recipe."""
    vary: dict[str, tuple[Any, ...]] = Field({})
    """Further keys with the values they take, ``{"data.sites" = [10, 20]}``; keys that change
    together are one: ``{"data.cases, train.epochs" = [[8, 10], [16, 5]]}``."""
    settings: Annotated[dict[str, Setting], Field(min_length=1)]
    given: dict[str, str] = Field({})
    """Places of data by name, from the command line."""


@dataclass(frozen=True)
class GridCell:
    """One run of a grid and its place in it."""

    setting: str
    row: str
    point: GridPoint
    seed: int
    recipe: Recipe

    @cached_property
    def digest(self) -> str:
        """Return the hash by which the run is known."""
        return identity(self.recipe)

    @property
    def column(self) -> str:
        """Return the name of its column: the setting, and the values that vary."""
        return ", ".join([self.setting, *self._values])

    @property
    def name(self) -> str:
        """Return the name of the run's folder and of its result: words, then a hash."""
        parts = [self.setting, self.data, self.row, *self._values, f"seed {self.seed}"]
        words = "-".join(filter(None, (slug(part.lower()) for part in parts)))
        return f"{words[:90].rstrip('-.')}-{self.digest[:10]}"

    @property
    def data(self) -> str:
        """Return the name of the data set."""
        return self.recipe.data.name.rpartition(":")[2]

    @property
    def _values(self) -> list[str]:
        return [f"{key.rpartition('.')[2]} {value}" for key, value in self.point]


def built_in_grids() -> list[str]:
    """Return the names of the grids that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def load_grid(source: str, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid, a file or a built-in one, and apply ``key=value``.

    Keys are those of the grid, places of data, and those of recipes.
    """
    file = Path(source)
    if not file.is_file():
        file = FOLDER / f"{source}.toml"
    if not file.is_file():
        hint = "; or the path of a .toml file"
        raise unknown("grid", source, built_in_grids(), hint)
    values: dict[str, Any] = {"name": file.stem, **read_toml(file)}
    others = {}
    for override in overrides:
        key, separator, text = (part.strip() for part in override.partition("="))
        if not separator or not key:
            raise RecipeError(f"expected key=value, found '{override}'")
        if key in Grid.model_fields and key not in ("settings", "given", "name"):
            values[key] = parse_value(text)
        else:
            others[key] = text
    try:
        grid = Grid.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"'{file}': {mistakes(error)}") from None
    settings = {name: _beside(one, file.parent) for name, one in grid.settings.items()}
    given = {}
    for name in sorted({one.data for one in settings.values()} - {""}):
        if place := others.pop(f"data.{name}", ""):
            given[name] = place
            if not Path(place).exists():
                raise RecipeError(f"data.{name}: there is nothing at '{place}'")
    changes = (*grid.set, *(f"{key}={text}" for key, text in others.items()))
    more = {"settings": settings, "given": given, "set": changes}
    return grid.model_copy(update=more)


def _beside(setting: Setting, folder: Path) -> Setting:
    """Return a setting with the full path of a recipe that lies beside the grid."""
    beside = folder / setting.recipe
    is_there = setting.recipe.endswith(".toml") and beside.is_file()
    return setting.model_copy(update={"recipe": str(beside)}) if is_there else setting


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
    points = [_point(grid.vary, values) for values in product(*grid.vary.values())]
    made = {
        (name, point, row): _recipe(grid, name, row, point, names)
        for name in grid.settings
        for point in points
        for row in grid.rows
    }
    return [
        GridCell(name, row, point, seed, recipe.model_copy(update={"seed": seed, "title": title}))
        for seed in grid.seeds
        for (name, point, row), recipe in made.items()
        for title in [f"{name}, {row}, seed {seed}"]
        if seed == grid.seeds[0] or row not in grid.once
    ]


def _point(keys: Iterable[str], values: Iterable[Any]) -> GridPoint:
    """Return one place of a grid; keys that change together have a list of values."""
    point: list[tuple[str, Any]] = []
    for key, value in zip(keys, values, strict=True):
        several = [part.strip() for part in key.split(",")]
        each = value if len(several) > 1 else [value]
        if not isinstance(each, list | tuple) or len(each) != len(several):
            raise RecipeError(f"vary: expected a list of values for '{key}', found {shown(value)}")
        point += zip(several, each, strict=True)
    return tuple(point)


def _recipe(grid: Grid, name: str, row: str, point: GridPoint, real: set[str]) -> Recipe:
    setting = grid.settings[name]
    method, *options = row.split(",")
    varied = [f"{key}={_value(value)}" for key, value in point if _concerns(key, method)]
    changes = [*setting.set, *grid.set, *varied]
    if setting.data and setting.data not in real:
        changes.insert(0, "data=synthetic")
    elif setting.data in grid.given:
        changes.insert(0, f"data={Path(grid.given[setting.data]).resolve()}")
    # In the method's own name, so that a row wins over what the grid sets for the method.
    place = method if METHODS.canonical(method) in METHODS.names() else "method"
    changes += [f"method={method}", *(f"{place}.{option.strip()}" for option in options)]
    recipe = load_recipe(setting.recipe, changes, tell=lambda _: None)  # one list for all rows
    if grid.protocol == "everything":
        return recipe
    values = recipe.to_dict()  # data and noise are those of seed 0, unless it names another
    if "seed" in keywords_of(DATA.get(recipe.data.name)):
        values["data"].setdefault("seed", 0)
    if recipe.noise.name != "none":
        values["noise"].setdefault("seed", 0)
    return validate(values)


def _concerns(key: str, method: str) -> bool:
    """Return whether a key that varies is for a method: not the option of another, ``feda3i.r``."""
    head = METHODS.canonical(key.partition(".")[0])
    is_option = head in METHODS.names() and head not in Recipe.model_fields
    return not is_option or head == METHODS.canonical(method)


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


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


def shard(cells: Sequence[GridCell], family: Sequence[str], part: str) -> list[GridCell]:
    """Return the part ``I/N`` of a grid's runs; cells with the same family stay together.

    >>> shard(["a", "b", "c", "d"], ["x", "x", "y", "z"], "1/2")
    ['a', 'b', 'd']
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", part)
    number, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= parts:
        raise RecipeError(f"--shard: expected I/N with I from 1 to N, e.g. 1/4, found '{part}'")
    names = list(dict.fromkeys(family))
    mine = set(names[number - 1 :: parts])
    return [cell for cell, name in zip(cells, family, strict=True) if name in mine]
