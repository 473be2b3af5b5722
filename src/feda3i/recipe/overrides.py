"""Overrides on the command line that belong to one method of several: ``feda3i.t1=4``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from feda3i.methods import REGISTRY


def split(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the overrides for every method, and those for one as ``{method: ["t1=4", ...]}``.

    >>> split(["rounds=3", "feda3i.t1=4", "method=fedavg"])
    (['rounds=3', 'method=fedavg'], {'feda3i': ['t1=4']})
    """
    common: list[str] = []
    own: dict[str, list[str]] = {}
    known = REGISTRY.names()
    for override in overrides:
        name, _, rest = override.partition(".")
        if "=" not in name and rest and REGISTRY.canonical(name.strip()) in known:
            own.setdefault(REGISTRY.canonical(name.strip()), []).append(rest)
        else:
            common.append(override)
    return common, own


def chosen(
    own: dict[str, list[str]],
    method: str,
    values: Callable[[list[str]], dict[str, object]],
    tell: Callable[[str], None],
) -> list[str]:
    """Return the overrides of the chosen method; check those of the others and tell about them.

    A sweep gives one list of overrides to all its methods. An option that its method does not
    have is an error even if that method is not chosen: it would never do anything.
    """
    from feda3i.methods.base import make_method

    name = REGISTRY.canonical(method)
    for other, options in own.items():
        if other == name:
            continue
        make_method(other, values(options))
        for option in options:
            tell(f"{other}.{option} is ignored: the method is {method}")
    return [f"method.{option}" for option in own.get(name, [])]
