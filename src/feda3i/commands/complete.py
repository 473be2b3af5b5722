"""What the shell offers after Tab: names come from the package, nothing heavy is imported."""

from __future__ import annotations


def recipes(incomplete: str) -> list[tuple[str, str]]:
    """Return the built-in recipes that begin with this text, each with its title."""
    from feda3i.recipe.finding import built_in, title_of

    return [(name, title_of(name)) for name in built_in() if name.startswith(incomplete)]


def names(incomplete: str) -> list[str]:
    """Return every name that ``feda3i explain`` knows and that begins with this text."""
    from feda3i.commands.explain import known_names

    return [name for name in known_names() if name.startswith(incomplete)]
