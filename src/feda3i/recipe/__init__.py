"""Recipes: one TOML file says everything about a run; ``key=value`` overrides anything in it.

>>> from feda3i import recipe
>>> recipe.load("demo", ["method=fedavg", "rounds=3"]).method.name
'fedavg'
"""

from feda3i.recipe.loading import load, validate
from feda3i.recipe.sections import Recipe

__all__ = ["Recipe", "load", "validate"]
