"""``feda3i list`` and ``feda3i explain``."""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feda3i.errors import RecipeError, nearest

if TYPE_CHECKING:
    from feda3i.registry import Registry


def by_word() -> dict[str, Registry]:
    """Return the four registries by the word that users type."""
    from feda3i.recipe.trust import registries

    return {"dataset" if word == "data" else word: one for word, one in registries().items()}


def list_names() -> None:
    """List methods, data sets, noise models, networks and built-in recipes."""
    from feda3i.recipe.finding import built_in

    for word, registry in by_word().items():
        print(f"{word + ':':9} {', '.join(registry.names())}")
    print(f"{'recipe:':9} {', '.join(built_in())}")
    print(
        "\nfeda3i explain NAME says what it does, and for a method what leaves a site;\n"
        "feda3i explain KEY (train.lr, data.size, feda3i.r) what a key of a recipe means."
    )


def known_names() -> list[str]:
    """Return every name that can be explained."""
    from feda3i.recipe.finding import built_in

    named = [name for registry in by_word().values() for name in registry.names()]
    return sorted({*named, *built_in()})


def explain(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Any NAME that 'feda3i list' shows, or a kind and a name: model unet.",
        ),
    ],
) -> None:
    """Explain a method (paper, what leaves a site), data set, noise, network or recipe."""
    found = by_word()
    kinds = (*found, "recipe", "key")
    if len(names) == 2 and names[0] in kinds:
        kind, name = names
    elif len(names) == 1:
        kind, name = _kind_of(names[0], found), names[0]
    else:
        expected = f"expected NAME, or one of {', '.join(kinds)} and NAME"
        raise RecipeError(f"{expected}; found '{' '.join(names)}'")
    cards = {"method": method_card, "recipe": recipe_card, "key": key_card, "model": network_card}
    if kind in cards:
        print(cards[kind](name))
    else:
        thing = found[kind].get(name)
        print(f"{name} ({kind})\n\n{inspect.getdoc(thing) or 'No description.'}")


def _kind_of(name: str, found: dict[str, Registry]) -> str:
    for kind, registry in found.items():
        if registry.canonical(name) in registry.names() or name in registry.names():
            return kind
    if ":" in name:
        return "method"
    from feda3i.commands.keys import all_keys, find_keys
    from feda3i.recipe.finding import built_in

    if name in built_in() or name.endswith(".toml"):
        return "recipe"
    if find_keys(name):
        return "key"
    hint = nearest(name, [*known_names(), *(key.name for key in all_keys())]) or "."
    raise RecipeError(f"nothing is called '{name}'{hint} Try 'feda3i list'")


def recipe_card(name: str) -> str:
    """Return a recipe as it is written, notes and all, and the command that runs it."""
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


def key_card(name: str) -> str:
    """Return what a key of a recipe takes and means."""
    from feda3i.commands.keys import find_keys

    lines = []
    for key in find_keys(name):
        lines.append(f"{key.name} ({key.owner})" if key.owner else key.name)
        lines.append(f"    {key.takes}; default: {key.default}")
        lines.append(textwrap.indent(textwrap.fill(key.meaning, 88), " " * 4))
    if not lines:
        raise RecipeError(
            f"there is no key '{name}' in a recipe; all are in docs/reference/recipe-keys.md"
        )
    return "\n".join(lines)


def network_card(name: str, size: int = 64, channels: int = 3) -> str:
    """Return the stages of a network and their share of the parameters."""
    import torch

    from feda3i.models import build
    from feda3i.models.stages import find_stages

    network = build(name, channels=channels, classes=1, shape=(size, size))
    stages = find_stages(network, torch.zeros(1, channels, size, size))
    sizes = {key: value.numel() for key, value in network.named_parameters()}  # tied ones once
    total = sum(sizes.values())
    row = "{:>5}  {:28} {:>7} {:>11}  {}".format
    lines = [f"{name} (model), {channels} channels, {size} x {size} px", ""]
    lines.append(row("stage", "name", "tensors", "parameters", "share"))
    for number, stage in enumerate(stages, start=1):
        own = sum(sizes.get(key, 0) for key in stage.keys)
        share = f"{100 * own / total:5.1f} %"
        lines.append(row(number, stage.name, len(stage.keys), f"{own:,}", share))
    return "\n".join([*lines, row("", "in all", "", f"{total:,}", "").rstrip()])
