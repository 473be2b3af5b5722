"""The ``[noise]`` section of a recipe: one annotator per site, drawn or given, and their masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from feda3i.core.cases import Federation
from feda3i.errors import RecipeError, nearest, shown
from feda3i.noise.annotators import NoiseSetting, annotators_of_setting, get_setting
from feda3i.noise.model import SIDE, Annotator, check_integer, check_number
from feda3i.noise.noisy_masks import DRAWN_AT, build_model
from feda3i.recipe import Recipe
from feda3i.simulation.cache import cached_noise

DRAWN = ("mu_max", "mu_min", "sigma_max", "p_d")
NOISE_OPTIONS = {
    "setting": (
        "text",
        "Name of one of the paper's settings: skin-ns, skin-ne, breast-ns, breast-ne; or none.",
    ),
    "mu_max": (
        "number from 0",
        "Largest mean offset of a site that draws too large, px at 256 px a side.",
    ),
    "mu_min": (
        "number to 0",
        "Most negative mean offset of a site that draws too small, px at 256 px a side.",
    ),
    "sigma_max": (
        "number from 0",
        "Largest spread of a site's offsets, px at 256 px; sites get half to all of it.",
    ),
    "p_d": ("number from 0 to 1", "Share of sites that draw too large."),
    "draw": (
        "exact, bernoulli or published",
        "Draw exactly that share of the sites, each site by chance, or the authors' own annotators "
        "of SKIN (the same for every seed).",
    ),
    "annotators": (
        "table",
        "Annotators by site instead of drawn ones: {site-01 = {mu = 5, sigma = 2}, ...}.",
    ),
    "seed": (
        "whole number from 0",
        "Seed of annotators and noisy masks, if it is not to be the run's.",
    ),
}
"""Options of ``[noise]`` beside those of the noise model: what each takes and means."""
DRAWING_OPTIONS = {
    DRAWN_AT: (
        "whole number from 16 to 4096",
        "Side at which noise is drawn, px: masks are enlarged to it and brought back. 256: as the "
        "paper draws, whatever the size of the cases.",
    ),
}
"""Options that every noise model takes."""


def annotators_of(recipe: Recipe, federation: Federation) -> dict[str, Annotator]:
    """Return the annotator of each site, and check that the noise model can be built for each.

    A recipe names a ``setting`` of the paper (``skin-ns``), gives its own ``mu_max, mu_min,
    sigma_max, p_d``, or lists ``annotators = {site-01 = {mu = 5, sigma = 2}, ...}``. All are in
    pixels at 256 px a side and are scaled to the size of the cases.
    """
    options = recipe.noise.options()
    check_one_source(options)
    if "annotators" in options:
        annotators = _given(options["annotators"], federation)
    else:
        annotators = annotators_of_setting(
            _setting(options),
            federation.names(),
            federation.train.usual_shape,
            _seed(recipe),
            options.get("draw", "exact"),
        )
    for annotator in annotators.values():
        build_model(recipe.noise.name, annotator, _model_options(recipe))
    return annotators


def check_one_source(options: Mapping[str, Any]) -> None:
    """Raise ``RecipeError`` if annotators are described in more than one way."""
    given = [name for name in NOISE_OPTIONS if name in options and options[name] != "none"]
    drawn = [name for name in DRAWN if name in given]
    both = ["setting", drawn[0]] if drawn and "setting" in given else []
    if "annotators" in given:
        both = ["annotators", *(name for name in given if name not in ("annotators", "seed"))]
    if len(both) > 1:
        raise RecipeError(
            f"noise: expected a setting, or {', '.join(DRAWN)}, or annotators; found {both[0]} and "
            f"{both[1]}, which contradict each other (noise.setting=none takes a setting away)"
        )


def with_noise(
    federation: Federation,
    recipe: Recipe,
    annotators: Mapping[str, Annotator],
    folder: Path | None = None,
) -> Federation:
    """Return the federation with the masks that the annotators draw; kept in the folder if given.

    The noise of a case depends on the seed, its site and its id: not on the method, the order or
    the number of processes, so that every method of a comparison sees the same masks.
    """
    cases = federation.train
    noisy = cached_noise(
        folder,
        cases.masks,
        cases.ids,
        federation.sites,
        annotators,
        seed=_seed(recipe),
        name=recipe.noise.name,
        options=_model_options(recipe),
        spacing=cases.voxels(),
    )
    dice = [row.dice for row in noisy.table]
    return federation.with_masks(
        noisy.masks,
        noise=recipe.noise.name,
        annotators={site: asdict(one) for site, one in sorted(annotators.items())},
        mask_dice=sum(dice) / len(dice),
        masks_sha256=noisy.digest(),
    )


def true_offsets(notes: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean offset of each site's annotator in pixels; empty if nobody is simulated."""
    annotators = notes.get("annotators", {})
    return {site: float(one["mu"]) for site, one in annotators.items() if "mu" in one}


def _model_options(recipe: Recipe) -> dict[str, Any]:
    return {k: v for k, v in recipe.noise.options().items() if k not in NOISE_OPTIONS}


def _seed(recipe: Recipe) -> int:
    seed = recipe.noise.options().get("seed", recipe.seed)
    check_integer("noise.seed", seed, 0)
    return int(seed)


def _setting(options: Mapping[str, Any]) -> NoiseSetting:
    if options.get("setting", "none") != "none":
        return get_setting(str(options["setting"]))
    missing = [name for name in DRAWN if name not in options]
    if missing:
        raise RecipeError(
            f"noise: expected a setting (noise.setting=skin-ns) or {', '.join(DRAWN)}; "
            f"'{missing[0]}' is missing"
        )
    for name in DRAWN:
        check_number(f"noise.{name}", options[name])
    return NoiseSetting(*(float(options[name]) for name in DRAWN))


def _given(table: Any, federation: Federation) -> dict[str, Annotator]:
    if not isinstance(table, Mapping):
        raise RecipeError("noise.annotators: expected a table of sites with mu and sigma")
    names = federation.names()
    for site in table:
        if site not in names:
            raise RecipeError(f"noise.annotators: there is no site '{site}'{nearest(site, names)}")
    lacking = [site for site in names if site not in table]
    if lacking:
        raise RecipeError(f"noise.annotators: site '{lacking[0]}' has no annotator")
    scale = max(federation.train.usual_shape) / SIDE
    for site, row in table.items():
        if not isinstance(row, Mapping) or set(row) != {"mu", "sigma"}:
            raise RecipeError(f"noise.annotators.{site}: expected mu and sigma, found {shown(row)}")
        for name, value in row.items():
            check_number(f"noise.annotators.{site}.{name}", value)
    return {
        site: Annotator(scale * float(row["mu"]), scale * float(row["sigma"]), scale)
        for site, row in table.items()
    }
