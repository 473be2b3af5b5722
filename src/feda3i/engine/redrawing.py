"""Masks redrawn before any method sees them.

A site that has not told yet is asked how far it draws outside the borders in its images. From all
answers the server computes how far each site should move its contours (``quality.site_effects``),
and every order tells a site its own move. The station moves the contours, the method works on moved
masks, and the given ones stay. Offsets and moves travel in pixels at 256 of a case's longest side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feda3i import quality
from feda3i.core.format import Format
from feda3i.core.messages import Replies, Settings
from feda3i.core.patches import foreground_places
from feda3i.core.server import Server
from feda3i.core.site import CaseFacts, Site
from feda3i.core.wire import MOVE, OFFSETS
from feda3i.errors import RecipeError, nearest
from feda3i.recipe import Recipe

_Row = tuple[float, float, int, float]
"""Offset, standard error, cases and radius of the objects; all 0 if it cannot be told."""
MOST_LINES = 8
LEAST = 0.5  # pixels at 256 below which a move is not worth a line


def is_wanted(recipe: Recipe) -> bool:
    """Return whether a run redraws masks: ``method=redraw`` is short for FedAvg that does."""
    return recipe.redraw.on or recipe.method.name == "redraw"


def begin(server: Server, recipe: Recipe) -> None:
    """Keep a place for the offsets, and those of trusted masks by class if there are any."""
    b0, trusted, classes = recipe.redraw.b0, recipe.redraw.trusted, server.format.classes
    if len(b0) not in (0, 1, classes):
        raise RecipeError(
            f"redraw.b0: expected one number for each of {classes} classes, found {len(b0)}"
        )
    for site in sorted(set(_trusted_sites(recipe)) - set(server.sites)):
        raise RecipeError(
            f"redraw.trusted: there is no site '{site}'{nearest(site, server.sites)} "
            f"Known: {', '.join(sorted(server.sites)[:10])}"
        )
    by_class = b0 * classes if len(b0) == 1 else b0
    border: list[_Row] = [(one, recipe.redraw.b0_error, 1, 0.0) for one in by_class]
    if isinstance(trusted, str):
        border = _rows_of_trusted(recipe, Path(trusted), server.format)
    server.state["redraw"] = {"border": border, "offsets": {}, "moved": {}}


def _rows_of_trusted(recipe: Recipe, folder: Path, form: Format) -> list[_Row]:
    """Return the offsets of a folder of trusted masks, whose cases are read as the sites' are."""
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
    side = float(np.median([quality.longest_side(mask.shape) for mask in cases.masks]))
    return _rows_of(cases.images, list(cases.masks), form, quality.SIDE / side)


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


def tell(site: Site) -> dict[str, list[float]]:
    """Return a site's offset by class with its standard error, cases and the objects' radius."""
    form = site.predictor.format
    # Cases with sizes of their own count relative to their longest sides.
    side = float(np.median(_sides_of(site))) if site.is_patched else max(form.shape)
    images = (site.cases.images[int(k)] for k in site.index)
    masks = list(site.given_masks())
    rows = _rows_of(images, masks, form, quality.SIDE / side, site.voxels())
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


def _rows_of(
    images: Iterable[ArrayLike],
    masks: Sequence[NDArray[Any]],
    form: Format,
    scale: float,
    spacing: ArrayLike | None = None,
) -> list[_Row]:
    """Return what is told of each class of label maps, in pixels times ``scale``."""
    values = (np.asarray(image) for image in images)
    # On the scale of bytes, which is that of ``measure_edges``.
    seen = [one if one.dtype == np.uint8 else form.normalise(one) for one in values]
    rows: list[_Row] = []
    for k in range(1, form.classes + 1):
        found = quality.measure_edges(seen, [mask == k for mask in masks], spacing=spacing)
        one = quality.rescaled(found, scale)
        radius = one.radius if one.radius > 0 else 0.0
        rows.append(
            (one.offset, one.error, one.cases, radius) if one.is_known else (0.0, 0.0, 0, 0.0)
        )
    return rows


def offset_of(row: Sequence[float]) -> quality.Offset:
    """Return the offset that a site told; from what the event log keeps of it, too."""
    offset, error, cases, radius = row
    if cases > 0 and error > 0:
        return quality.Offset(offset, error, int(cases), radius=radius or np.nan)
    return quality.Offset.unknown(0, "it could not be told")


def _sides_of(site: Site) -> list[float]:
    return [quality.longest_side(*case) for case in zip(site.shapes, _voxels_of(site), strict=True)]


def _voxels_of(site: Site) -> list[list[float] | None]:
    """Return the relative sizes of each case's voxels; ``None`` where sides are equal."""
    sizes = site.voxels()
    return [None] * len(site) if sizes is None else sizes.tolist()
