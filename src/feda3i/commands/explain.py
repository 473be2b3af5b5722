"""``feda3i list`` and ``feda3i explain``."""

import inspect
import textwrap
from itertools import chain
from typing import Annotated, Any

import typer

from feda3i.errors import RecipeError, nearest


def list_names() -> None:
    """List methods, data sets, noise models, networks and built-in recipes."""
    for kind, names in names_by_kind().items():
        print(f"{kind + ':':8} {', '.join(names)}")
    print(
        "\nfeda3i explain NAME says what it does, and for a method what leaves a site;\n"
        "feda3i explain KEY (train.lr, data.size, method.r) what a key of a recipe means."
    )


def names_by_kind() -> dict[str, list[str]]:
    """Return the names of everything that a recipe can name, and of the built-in recipes."""
    from feda3i.recipe.finding import built_in
    from feda3i.recipe.trust import registries

    found = {kind: registry.names() for kind, registry in registries().items()}
    return {**found, "recipe": built_in()}


def explain(
    names: Annotated[
        list[str],
        typer.Argument(help="Any NAME that 'feda3i list' shows, or a kind and a name: model unet."),
    ],
) -> None:
    """Explain a method (paper, what leaves a site), data set, noise, network, recipe or key."""
    kinds = [*names_by_kind(), "key"]
    if len(names) == 2 and names[0] in kinds:
        kind, name = names
    elif len(names) == 1:
        kind, name = _kind_of(names[0]), names[0]
    else:
        expected = f"expected NAME, or one of {', '.join(kinds)} and NAME"
        raise RecipeError(f"{expected}; found '{' '.join(names)}'")
    cards = {"method": method_card, "recipe": _recipe_card, "key": _key_card}
    print(cards[kind](name) if kind in cards else _thing_card(kind, name))


def _kind_of(name: str) -> str:
    from feda3i.commands.keys import all_keys, find_keys

    found = names_by_kind()
    for kind, names in found.items():
        if name in names or name.lower().replace("_", "-") in names:
            return kind
    if ":" in name or name.endswith(".toml"):
        return "method" if ":" in name else "recipe"
    if find_keys(name):
        return "key"
    known = [*chain(*found.values()), *(key.name for key in all_keys())]
    raise RecipeError(f"nothing is called '{name}'{nearest(name, known) or '.'} Try 'feda3i list'")


def _recipe_card(name: str) -> str:
    from feda3i.recipe.finding import find

    text = find(name).read_text(encoding="utf-8").strip()
    return f"{name} (recipe)\n\n{text}\n\nRun it: feda3i run {name} [key=value ...]"


def method_card(name: str) -> str:
    """Return a method's card with its wire and its hyper-parameters."""
    from feda3i.commands.keys import options_of
    from feda3i.core.wire import ALWAYS
    from feda3i.methods import REGISTRY
    from feda3i.simulation.views import card_of

    kind: Any = REGISTRY.get(name)
    wire = kind.wire
    lines = [card_of(name), "", "Declared on the wire (anything else is refused)"]
    fit = ", ".join((*ALWAYS["fit"], *wire.fit))
    lines.append(f"    after training: the network's parameters, number of cases, {fit}")
    if wire.survey:
        lines.append(f"    answer to a survey: number of cases, {', '.join(wire.survey)}")
    down = (*wire.settings, *(f"network '{name}'" for name in wire.networks))
    lines.append(f"    to a site: the network's parameters{''.join(f', {d}' for d in down)}")
    lines += ["", "Options (method.NAME=VALUE)"]
    for key in options_of("method", name, kind):
        lines.append(f"    {key.name.partition('.')[2]} = {key.default} ({key.takes})")
        lines.append(textwrap.indent(textwrap.fill(key.meaning, 84), " " * 8))
    return "\n".join(lines)


def _key_card(name: str) -> str:
    from feda3i.commands.keys import find_keys

    lines = []
    for key in find_keys(name):
        lines.append(f"{key.name} ({key.owner})" if key.owner else key.name)
        lines.append(f"    {key.takes}; default: {key.default}")
        lines.append(textwrap.indent(textwrap.fill(key.meaning, 88), " " * 4))
    if not lines:
        text = f"there is no key '{name}' in a recipe; all are in docs/reference/recipe-keys.md"
        raise RecipeError(text)
    return "\n".join(lines)


def _thing_card(kind: str, name: str) -> str:
    """Return the docstring of a data set, noise model or network, and a network's stages."""
    import torch

    from feda3i.models import build
    from feda3i.models.stages import find_stages
    from feda3i.recipe.trust import registries

    text = inspect.getdoc(registries()[kind].get(name)) or "No description."
    if kind == "model":
        network = build(name, channels=3, classes=1, shape=(64, 64))
        stages = find_stages(network, torch.zeros(1, 3, 64, 64))
        text += f"\n\nStages: {', '.join(stage.name for stage in stages)}"
    return f"{name} ({kind})\n\n{text}"
