"""Where recipes are: your own TOML files, and those that come with the package."""

import tomllib
from pathlib import Path
from typing import Any

from feda3i.errors import RecipeError, nearest
from feda3i.values import check_plain

FOLDER = Path(__file__).parent.parent / "recipes"
SECTIONS = ("data", "noise", "model", "method")  # for which a bare name may stand


def built_in() -> list[str]:
    """Return the names of the recipes that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def title_of(name: str) -> str:
    """Return the first clause of the comment at the top of a built-in recipe.

    >>> title_of("skin_ne")
    "The paper's SKIN N_E at full scale"
    """
    first = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ").partition(":")[0]


def find(source: str | Path) -> Path:
    """Return the path of a recipe: a file, or the name of a built-in recipe."""
    for path in (Path(source), FOLDER / f"{source}.toml"):
        if path.is_file():
            return path
    raise RecipeError(
        f"there is no recipe '{source}'{nearest(str(source), built_in()) or '.'} "
        f"Give the path of a .toml file or one of: {', '.join(built_in())}"
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; say where it is wrong."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot read the recipe '{path}': {error}") from None
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise RecipeError(f"'{path}' is not valid TOML: {error}") from None
    check_plain(values)
    for section in SECTIONS:  # a bare name is short for a section with only a name
        if isinstance(values.get(section), str):
            values[section] = {"name": values[section]}
    return values
