"""How a run will use a folder, said before the first pixel is read."""

from __future__ import annotations

import sys

from feda3i.data.breast import EXPECTED
from feda3i.data.division import Division
from feda3i.data.folder import Folder
from feda3i.data.sets import REGISTRY
from feda3i.errors import RecipeError
from feda3i.reading.usage import usage_lines
from feda3i.recipe import Recipe


def tell_data(recipe: Recipe, quiet: bool) -> None:
    """Say how a folder's files and sites are used; what was perhaps not meant, even if quiet."""
    plan = division_of(recipe)
    if plan is None:
        return
    lines = changes_of(recipe, plan)
    if not quiet:
        counts = [f"{site} {len(part)}" for site, part in sorted(plan.parts.items())]
        sites = f"{len(counts)} site{'s' * (len(counts) > 1)}"
        lines += usage_lines(plan.listing.fates)
        lines.append(f"{sites}, training cases: {_few(counts, 12)}; {len(plan.wanted)} test cases")
    print("".join(f"{line}\n" for line in lines), end="", file=sys.stderr)


def division_of(recipe: Recipe) -> Division | None:
    """Return the plan for a recipe with a folder; nothing if it has none, or wrong options."""
    name, given = REGISTRY.canonical(recipe.data.name), recipe.data.options()
    make = REGISTRY.get(name) if name in REGISTRY.builtin else None
    if not (isinstance(make, type) and issubclass(make, Folder) and given.get("path")):
        return None
    try:
        options = make.of({"seed": recipe.seed, **given})
    except RecipeError:
        return None  # the data set itself says which option is wrong
    return options.preview()


def changes_of(recipe: Recipe, plan: Division) -> list[str]:
    """Return changes to real sites or cases that the user may not have intended."""
    found, changes = [], []
    sites = plan.real_sites()
    is_own = not set(sites) <= set(EXPECTED)  # BREAST simulates sites of its sources
    if is_own and set(plan.homes) != set(sites):
        changes.append(f"makes {len(plan.parts)} simulated sites of them ({plan.partition})")
    if is_own and recipe.noise.name != "none":
        changes.append(f"draws simulated noise over their masks (noise {recipe.noise.name})")
    if changes:
        place = recipe.data.options()["path"]
        found.append(
            f"note: {place} holds {len(sites)} real sites ({_few(sites, 5)}), and this recipe "
            f"{' and '.join(changes)}. To train on the sites as they are: "
            f"feda3i run own data={place}"
        )
    if left := plan.left_out():
        counts = ", ".join(f"{count} ({name})" for name, count in left.items())
        found.append(f"note: cases that are neither trained on nor scored: {counts}")
    return found


def _few(names: list[str], show: int) -> str:
    more = f", ... ({len(names) - show} more)" if len(names) > show else ""
    return ", ".join(names[:show]) + more
