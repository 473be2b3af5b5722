"""``feda3i list`` and ``feda3i explain``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from feda3i.errors import RecipeError, nearest
from feda3i.registry import Registry


def registries() -> dict[str, Registry]:
    """Return the four registries by the word that a user says."""
    from feda3i.data.registry import REGISTRY as datasets
    from feda3i.methods import REGISTRY as methods
    from feda3i.models import REGISTRY as models
    from feda3i.noise.federation import REGISTRY as noise

    return {"method": methods, "dataset": datasets, "noise": noise, "model": models}


def list_names() -> None:
    """Print every name that a recipe can use."""
    from feda3i.recipe import built_in

    for word, registry in registries().items():
        print(f"{word + ':':9} {', '.join(registry.names())}")
    print(f"{'recipe:':9} {', '.join(built_in())}")
    print("\nfeda3i explain NAME says what a method does and what leaves a site.")


def known_names() -> list[str]:
    """Return every name that can be explained."""
    from feda3i.recipe import built_in

    named = [name for registry in registries().values() for name in registry.names()]
    return sorted({*named, *built_in()})


def explain(names: Sequence[str], size: int, channels: int) -> None:
    """Print what is known about a thing; ``explain model NAME`` shows the stages of a network."""
    found = registries()
    if len(names) == 2 and names[0] in (*found, "recipe"):
        kind, name = names
    elif len(names) == 1:
        kind, name = _kind_of(names[0], found), names[0]
    else:
        kinds = ", ".join((*found, "recipe"))
        raise RecipeError(f"expected NAME, or one of {kinds} and NAME; found '{' '.join(names)}'")
    if kind == "method":
        print(method_card(name))
    elif kind == "model":
        print(model_card(name, size, channels))
    elif kind == "recipe":
        print(recipe_card(name))
    else:
        thing = found[kind].get(name)
        print(f"{name} ({kind})\n\n{inspect.getdoc(thing) or 'No description.'}")


def _kind_of(name: str, found: dict[str, Registry]) -> str:
    for kind, registry in found.items():
        if registry.canonical(name) in registry.names() or name in registry.names():
            return kind
    if ":" in name:
        return "method"
    from feda3i.recipe import built_in

    if name in built_in() or name.endswith(".toml"):
        return "recipe"
    hint = nearest(name, known_names()) or "."
    raise RecipeError(f"nothing is called '{name}'{hint} Try 'feda3i list'")


def recipe_card(name: str) -> str:
    """Return a recipe as it is written, notes and all, and the command that runs it."""
    from feda3i.recipe import find

    text = find(name).read_text(encoding="utf-8").strip()
    return f"{name} (recipe)\n\n{text}\n\nRun it: feda3i run {name} [key=value ...]"


def method_card(name: str) -> str:
    """Return a method's card with its wire and its hyper-parameters."""
    from dataclasses import MISSING, fields

    from feda3i.engine.wire import ALWAYS
    from feda3i.methods import REGISTRY

    kind: Any = REGISTRY.get(name)
    wire = kind.wire
    lines = [kind.card(), "", "Declared on the wire (anything else is refused)"]
    fit = ", ".join((*ALWAYS["fit"], *wire.fit))
    lines.append(f"    after training: the network's parameters, number of cases, {fit}")
    if wire.survey:
        lines.append(f"    answer to a survey: number of cases, {', '.join(wire.survey)}")
    down = (*wire.settings, *(f"network '{name}'" for name in wire.params))
    lines.append(f"    to a site: the network's parameters{''.join(f', {d}' for d in down)}")
    lines += ["", "Options (method.NAME=VALUE)"]
    for field in fields(kind):
        default = "" if field.default is MISSING else f" = {_default(field.default)}"
        lines.append(f"    {field.name}{default}")
    return "\n".join(lines)


def _default(value: Any) -> str:
    return repr(getattr(value, "default", value))


def model_card(name: str, size: int, channels: int) -> str:
    """Return the stages of a network and their share of the parameters."""
    import torch

    from feda3i.models import build, find_stages, stage_rows

    network = build(name, channels=channels, classes=1, shape=(size, size))
    stages = find_stages(network, torch.zeros(1, channels, size, size))
    rows = stage_rows(network, stages)
    lines = [f"{name} (model), {channels} channels, {size} x {size} px", ""]
    lines.append(f"{'stage':>5}  {'name':28} {'tensors':>7} {'parameters':>11}  share")
    for row in rows:
        lines.append(
            f"{row.number:>5}  {row.name:28} {row.tensors:>7} {row.parameters:>11,}"
            f"  {100 * row.share:5.1f} %"
        )
    total = sum(row.parameters for row in rows)
    lines.append(f"{'':>5}  {'in all':28} {'':>7} {total:>11,}")
    return "\n".join(lines)
