"""``feda3i check method NAME``: whether your method keeps every promise."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from feda3i.errors import RecipeError


def check_method(arguments: Sequence[str]) -> None:
    """Run the contract on a method; options as ``key=value`` after its name."""
    if not arguments:
        raise RecipeError("expected: feda3i check method NAME [key=value ...]")
    from feda3i import contract
    from feda3i.methods.base import make_method
    from feda3i.recipe import load

    name, *options = arguments
    section = load(None, [f"method={name}", *(f"method.{option}" for option in options)]).method
    make_method(section.name, section.options())
    outcome = contract.check_method(section.name, section.options())
    promises = {promise.__name__: promise.__doc__ for promise in contract.PROMISES}
    for promise, trouble in outcome.items():
        told = (promises[promise] or "").strip()
        print(f"{'broken' if trouble else 'kept  '}  {told}")
        if trouble:
            print(f"        {trouble}")
    broken = sum(bool(trouble) for trouble in outcome.values())
    print(f"{len(outcome) - broken} promises kept, {broken} broken")
    if broken:
        raise typer.Exit(1)
