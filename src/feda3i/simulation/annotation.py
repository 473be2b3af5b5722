"""The ``[noise]`` section of a recipe: one annotator per site, drawn or given, and their masks."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from feda3i.core.cases import Federation
from feda3i.errors import RecipeError
from feda3i.noise.annotators import NoiseSetting, annotators_of_setting, get_setting
from feda3i.noise.model import SIDE, Annotator
from feda3i.noise.noisy_masks import apply_noise, build_model, has_own_rates
from feda3i.recipe import Recipe
from feda3i.recipe.sections import DRAWN, NoiseSection


def annotators_of(recipe: Recipe, federation: Federation) -> dict[str, Annotator]:
    """Return who draws the masks of each site (nobody without noise); check that they can.

    A recipe names a ``setting`` of the paper (``skin-ns``), gives its own ``mu_max, mu_min,
    sigma_max, p_d``, or lists ``annotators = {site-01 = {mu = 5, sigma = 2}, ...}``. All are in
    pixels at 256 px a side and are scaled to the size of the cases. Noise with rates of its own
    (``omit``, ``add``, ``swap``) needs none of these: all sites draw alike.
    """
    noise, shape = recipe.noise, federation.train.usual_shape
    if noise.name == "none":
        for option in noise.model_fields_set - {"name"}:
            raise RecipeError(f"noise.{option} has no effect without noise: try noise=contour")
        return {}
    if noise.annotators is not None:
        scale = max(shape) / SIDE
        annotators = {
            site: Annotator(scale * one.mu, scale * one.sigma, scale)
            for site, one in noise.annotators.items()
        }
        if set(annotators) != set(federation.names()):
            raise RecipeError(
                f"noise.annotators: expected one for each of {', '.join(federation.names())}, "
                f"found {', '.join(annotators) or 'none'}"
            )
    elif noise.setting in (None, "none") and has_own_rates(noise.name):
        annotators = dict.fromkeys(federation.names(), Annotator(0.0, 0.0, max(shape) / SIDE))
    else:
        names, setting = federation.names(), _setting(noise)
        annotators = annotators_of_setting(setting, names, shape, _seed(recipe), noise.draw)
    for annotator in annotators.values():
        build_model(noise.name, annotator, noise.options())
    return annotators


def _setting(noise: NoiseSection) -> NoiseSetting:
    if noise.setting not in (None, "none"):
        return get_setting(str(noise.setting))
    numbers = {name: getattr(noise, name) for name in DRAWN}
    missing = [name for name, value in numbers.items() if value is None]
    if missing:
        raise RecipeError(
            f"noise: expected a setting (noise.setting=skin-ns) or {', '.join(DRAWN)}; "
            f"'{missing[0]}' is missing"
        )
    return NoiseSetting(**numbers)


def _seed(recipe: Recipe) -> int:
    return recipe.seed if recipe.noise.seed is None else recipe.noise.seed


def with_noise(
    federation: Federation, recipe: Recipe, annotators: Mapping[str, Annotator]
) -> Federation:
    """Return the federation with the masks that the annotators draw.

    The noise of a case depends on the seed, its site and its id: all methods see the same masks.
    """
    cases = federation.train
    noisy = apply_noise(
        cases.masks,
        cases.ids,
        federation.sites,
        annotators,
        seed=_seed(recipe),
        name=recipe.noise.name,
        options=recipe.noise.options(),
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
