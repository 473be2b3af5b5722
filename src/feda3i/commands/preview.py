"""How a run will use a folder, said before the first pixel is read."""

from __future__ import annotations

from feda3i.data.division import Division
from feda3i.data.folder import Folder
from feda3i.data.sets import REGISTRY
from feda3i.errors import RecipeError
from feda3i.reading.usage import usage_lines
from feda3i.recipe import Recipe


def preview(recipe: Recipe) -> tuple[list[str], list[str]]:
    """Return warnings, and what is used of a folder: both as lines; empty for other data sets."""
    plan = division_of(recipe)
    if plan is None:
        return [], []
    return changes_of(recipe, plan), [*usage_lines(plan.listing.usage), *sites_line(plan)]


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
    found = []
    sites = plan.real_sites()
    is_own = bool(sites) and REGISTRY.get(recipe.data.name).card is None
    changes = []
    if is_own and set(plan.homes) != set(sites):
        most = max(len(part) for part in plan.parts.values())
        verb = "divides" if plan.partition == "by-source" else "mixes"
        changes.append(
            f"{verb} them into {len(plan.parts)} simulated sites of at most {most} cases "
            f"(partition {plan.partition})"
        )
    if is_own and recipe.noise.name != "none":
        changes.append(f"draws simulated noise over their masks (noise {recipe.noise.name})")
    if changes:
        place = recipe.data.options()["path"]
        found.append(
            f"note: {place} holds {len(sites)} real sites ({_few(sites)}), and this recipe "
            f"{' and '.join(changes)}. To train on the sites as they are: "
            f"feda3i run own data={place}"
        )
    left = plan.left_out()
    if left["cases"]:
        total = len(plan.train)
        found.append(f"note: data.cases leaves out {left['cases']} of {total} training cases")
    if left["test"]:
        found.append(f"note: data.test leaves out {left['test']} of {len(plan.tests)} test cases")
    if plan.aside:
        found.append(
            f"note: {plan.aside} validation cases are neither trained on nor scored, as their "
            "sites have test cases: data.validation=train or test uses them"
        )
    return found


def sites_line(plan: Division) -> list[str]:
    """Return one line about sites and test cases."""
    count = {site: len(part) for site, part in sorted(plan.parts.items())}
    shown = [f"{site} {cases}" for site, cases in count.items()]
    return [
        f"{len(count)} site{'s' * (len(count) > 1)}, training cases: {_few(shown, 12)}; "
        f"{len(plan.wanted)} test cases"
    ]


def _few(names: list[str], show: int = 5) -> str:
    more = f", ... ({len(names) - show} more)" if len(names) > show else ""
    return ", ".join(names[:show]) + more
