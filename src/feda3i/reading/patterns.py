"""Patterns that users give, checked before use."""

from __future__ import annotations

import re
from functools import lru_cache

from feda3i.errors import RecipeError


@lru_cache(maxsize=8)
def compile_group(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; it must have a part called ``group``."""
    try:
        found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise RecipeError(
            f"group: '{pattern}' is not a regular expression ({error}); "
            "expected for example '(?P<group>[^_]+)_.*'"
        ) from None
    if "group" not in found.groupindex:
        raise RecipeError(
            f"group: expected a part (?P<group>...) in the pattern, found '{pattern}'; "
            "for example '(?P<group>[^_]+)_.*'"
        )
    return found


def match_group(pattern: str, name: str) -> str | None:
    """Return what the part ``group`` matches if the pattern fits the whole name.

    >>> match_group("(?P<group>[^_]+)_.*", "p7_left"), match_group("(?P<group>x)", "p7")
    ('p7', None)
    """
    found = compile_group(pattern).fullmatch(name)
    return found.group("group") if found else None
