"""Masks redrawn before any method sees them.

A site that has not told yet is asked how far it draws outside the borders in its images. From all
answers the server computes by how much each site should move its contours
(``quality.site_effects``), and every order tells a site its own move. The station moves the
contours, the method works on moved masks, and the given ones stay as they are. Offsets and moves
travel in pixels at 256 of a case's longest side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i import quality
from feda3i.core.format import Format
from feda3i.core.messages import Replies, Settings
from feda3i.core.normalise import Normalise
from feda3i.core.patches import foreground_places
from feda3i.core.server import Server
from feda3i.core.site import CaseFacts, Site
from feda3i.core.wire import MOVE, OFFSETS
from feda3i.errors import RecipeError, nearest
from feda3i.recipe import Recipe

MOST_LINES = 8
LEAST = 0.5
"""Pixels at 256 below which a move is not worth a line."""


def is_wanted(recipe: Recipe) -> bool:
    """Return whether a run redraws masks: ``method=redraw`` is short for FedAvg that does."""
    return recipe.redraw.on or recipe.method.name == "redraw"


# -- server ---------------------------------------------------------------------------------------


def begin(server: Server, recipe: Recipe) -> None:
    """Keep a place for the offsets, and those of trusted masks by class if there are any."""
    b0, trusted, classes = recipe.redraw.b0, recipe.redraw.trusted, server.format.classes
    if len(b0) not in (0, 1, classes):
        raise RecipeError(
            f"redraw.b0: expected one number for each of {classes} classes, found {len(b0)}"
        )
    by_class = b0 * classes if len(b0) == 1 else b0
    found = [quality.Offset(one, recipe.redraw.b0_error, 1) for one in by_class]
    if isinstance(trusted, str):
        found = trusted_offsets(recipe, Path(trusted), server.format)
    border = [_row(one) for one in found]
    for site in sorted(set(_trusted_sites(recipe)) - set(server.sites)):
        raise RecipeError(
            f"redraw.trusted: there is no site '{site}'{nearest(site, server.sites)} "
            f"Known: {', '.join(sorted(server.sites)[:10])}"
        )
    server.state["redraw"] = {"border": border, "offsets": {}, "moved": {}}


def trusted_offsets(recipe: Recipe, folder: Path, form: Format) -> list[quality.Offset]:
    """Return the offset of a folder of trusted masks by class, in px at 256.

    Its cases are read as those of the sites are.
    """
    from feda3i.data.folder import load_folder

    options = recipe.data.options()
    names = ("volumes", "axis", "values", "spacing")
    kept = {name: options[name] for name in names if name in options}
    cases = load_folder(
        folder,
        **kept,
        size=options.get("size") if kept or recipe.train.patch else form.shape[0],
        channels=form.channels,
        classes=tuple(options.get("classes", ())) if form.classes > 1 else (),
        unused=options.get("unused", "error"),
    )
    images = [_byte_image(image, form.normalise) for image in cases.images]
    scale = quality.SIDE / float(np.median([quality.longest_side(m.shape) for m in cases.masks]))
    return [
        quality.rescaled(one, scale) for one in _edges_of(images, list(cases.masks), form.classes)
    ]


def unasked(server: Server) -> list[str]:
    """Return the sites that have not told their offset."""
    return sorted(set(server.sites) - set(server.state["redraw"]["offsets"]))


def take(server: Server, replies: Replies, recipe: Recipe) -> list[str]:
    """Compute every site's move from all answers so far; return what to say about it."""
    state = server.state["redraw"]
    for reply in replies:
        columns = [reply.numbers[name] for name in OFFSETS]
        state["offsets"][reply.site] = np.stack(columns, axis=1).tolist()
    sites = sorted(state["offsets"])
    trusted = _trusted_sites(recipe)
    is_trusted = [site in trusted for site in sites]
    moves, lines = [], []
    for k in range(server.format.classes):
        told = [offset_of(state["offsets"][site][k]) for site in sites]
        border = offset_of(state["border"][k]) if state["border"] else None
        found = quality.site_effects(told, border, is_trusted)
        moves.append(found.moves)
        name = f"class {k + 1}: " if server.format.classes > 1 else ""
        lines += [name + line for line in _lines(found, sites, _unit(server))]
    state["moved"] = dict(zip(sites, np.stack(moves, axis=1).tolist(), strict=True))
    server.record(offsets=dict(state["offsets"]), moved=dict(state["moved"]))
    return lines


def move_of(server: Server, site: str) -> Settings:
    """Return what an order tells a site beside its method's settings."""
    by = server.state.get("redraw", {}).get("moved", {}).get(site)
    return {MOVE: by} if by is not None and any(by) else {}


def _lines(found: quality.Effects, sites: Sequence[str], unit: tuple[float, str]) -> list[str]:
    """Return who moves by how much, the farthest first, or that nobody does."""
    scale, name = unit
    moves, limit = found.moves, LEAST
    far = [k for k in np.argsort(-np.abs(moves), kind="stable").tolist() if abs(moves[k]) >= limit]
    if not far:
        why = found.reason or f"no site differs reliably by {limit * scale:.1f} {name}"
        return [f"masks redrawn: nobody's: {why}"]
    told = [f"{sites[k]} {moves[k] * scale:+.1f}" for k in far[:MOST_LINES]]
    more = f" and {len(far) - MOST_LINES} more" if len(far) > MOST_LINES else ""
    return [
        f"masks redrawn: {len(far)} of {len(sites)} sites move their contours, {name} outwards: "
        f"{', '.join(told)}{more}"
    ]


def _unit(server: Server) -> tuple[float, str]:
    """Return what one pixel at 256 is in pixels of the cases, and their name."""
    if server.format.patches:  # every case has its own size
        return 1.0, "px (at 256)"
    return max(server.format.shape) / quality.SIDE, "px"


def _trusted_sites(recipe: Recipe) -> tuple[str, ...]:
    trusted = recipe.redraw.trusted
    return () if isinstance(trusted, str) else trusted


# -- site -----------------------------------------------------------------------------------------


def tell(site: Site) -> dict[str, list[float]]:
    """Return a site's offset by class with its standard error, cases and the objects' radius."""
    normalise = site.predictor.format.normalise
    images = [_byte_image(site.cases.images[int(k)], normalise) for k in site.index]
    found = _edges_of(images, list(site.given_masks()), site.classes, site.voxels())
    # Cases with sizes of their own count relative to their longest sides.
    side = (
        float(np.median(_sides_of(site))) if site.is_patched else max(site.predictor.format.shape)
    )
    rows = [_row(quality.rescaled(one, quality.SIDE / side)) for one in found]
    columns = np.array(rows, dtype=np.float64).T
    return {name: column.tolist() for name, column in zip(OFFSETS, columns, strict=True)}


def redrawn(site: Site, by: Sequence[float]) -> Site:
    """Return the site with its contours moved outwards, by class in pixels at 256."""
    cases = zip(range(len(site)), _sides_of(site), _voxels_of(site), strict=True)
    masks = [
        quality.redraw(site.mask_of(k), [side / quality.SIDE * one for one in by], sizes)
        for k, side, sizes in cases
    ]
    facts = site.facts
    if site.is_patched:  # patches are centred on redrawn masks
        facts = {
            place: CaseFacts(site.facts_of(place).line, foreground_places(mask, site.classes))
            for place, mask in zip(site.index.tolist(), masks, strict=True)
        }
    return replace(site, facts=facts, masks=masks)


def _row(one: quality.Offset) -> tuple[float, float, int, float]:
    """Return offset, standard error, cases and radius; all 0 if it cannot be told."""
    if not one.is_known:
        return 0.0, 0.0, 0, 0.0
    return one.offset, one.error, one.cases, one.radius if one.radius > 0 else 0.0


def offset_of(row: Sequence[float]) -> quality.Offset:
    """Return what ``_row`` was given, but for the reason; from what the event log keeps of it."""
    offset, error, cases, radius = row
    if cases > 0 and error > 0:
        return quality.Offset(offset, error, int(cases), radius=radius or np.nan)
    return quality.Offset.unknown(0, "it could not be told")


def _byte_image(image: ArrayLike, normalise: Normalise) -> NDArray[Any]:
    """Return an image on the scale of bytes, which is that of ``measure_edges``."""
    values = np.asarray(image)
    return values if values.dtype == np.uint8 else normalise(values)


def _edges_of(
    images: Sequence[NDArray[Any]],
    masks: Sequence[NDArray[Any]],
    classes: int,
    spacing: ArrayLike | None = None,
) -> list[quality.Offset]:
    """Return the offset of label maps for each class, in pixels of the median case."""
    return [
        quality.measure_edges(images, [mask == k for mask in masks], spacing=spacing)
        for k in range(1, classes + 1)
    ]


def _sides_of(site: Site) -> list[float]:
    """Return the longest side of each case, in pixels of the smallest side."""
    return [quality.longest_side(*case) for case in zip(site.shapes, _voxels_of(site), strict=True)]


def _voxels_of(site: Site) -> list[list[float] | None]:
    """Return the relative sizes of each case's voxels; ``None`` where sides are equal."""
    sizes = site.voxels()
    return [None] * len(site) if sizes is None else sizes.tolist()
