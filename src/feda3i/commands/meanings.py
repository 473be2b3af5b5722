"""What each option means, read from where it is defined: the text below a field or a parameter.

Two forms are understood: a docstring right below a field of a class, and the section
``Parameters`` of a docstring (``a, b`` share a text; ``As for :func:`other``` is followed).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from itertools import pairwise
from typing import Any


def meanings_of(thing: Any) -> dict[str, str]:
    """Return the meaning of each field of a class, or of each parameter of a function.

    >>> from feda3i.methods.fedprox import FedProx
    >>> meanings_of(FedProx)["mu"]
    'Strength of the pull; 0 is FedAvg.'
    """
    found: dict[str, str] = {}
    owners = thing.__mro__[::-1] if isinstance(thing, type) else (thing,)
    for owner in owners:
        if owner is object or getattr(owner, "__module__", "").startswith(("torch", "pydantic")):
            continue
        found |= _parameters(owner)
        if isinstance(owner, type):
            found |= _below_fields(owner)
    return found


def _below_fields(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # made at run time: nothing to read
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = {}
    for field, text in pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = _one_line(str(text.value.value))
    return found


def _parameters(thing: Any) -> dict[str, str]:
    """Return the section ``Parameters`` of a docstring."""
    # Not the docstring of a base class: it is read for itself.
    own = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    text = inspect.cleandoc(own or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|^>>>|\Z)", text, re.M | re.S)
    found: dict[str, str] = {}
    for names, body in re.findall(
        r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?|\n)*)", section[1] if section else "", re.M
    ):
        meaning = _one_line(body)
        other = re.fullmatch(r"As for :func:`([\w.]+)`\.?", meaning)
        there = meanings_of(_named(other[1], thing)) if other else {}
        for name in names.split(", "):
            found[name] = there.get(name, "") if other else meaning
    return found


def _named(name: str, near: Any) -> Any:
    """Return a function by its dotted path, or by its name beside another one."""
    place, _, attribute = name.rpartition(".")
    module = importlib.import_module(place) if place else sys.modules[near.__module__]
    return getattr(module, attribute)


def _one_line(text: str) -> str:
    """Return a text as one line, without the marks of code.

    >>> _one_line('''``"a"`` is
    ...     one''')
    '"a" is one'
    """
    return " ".join(text.replace("``", "").split())
