"""A gallery of cases, worst first: the clean, the given and the predicted contour on the image.

Run folders hold no pixels, so the cases are made again from the run's recipe, and only if their
hashes are those of the run. A page with a gallery holds images: it is for the eyes of those who may
see them.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from contourpy import contour_generator
from numpy.typing import NDArray
from PIL import Image

from feda3i.core.cases import Cases, Federation
from feda3i.core.format import Format
from feda3i.core.normalise import byte_picture
from feda3i.core.predictor import Predictor
from feda3i.core.ragged import stacked
from feda3i.engine.manifest import check_data_kept
from feda3i.engine.model_file import open_predictor
from feda3i.engine.run import describe
from feda3i.engine.scoring import score_cases, volume_of
from feda3i.engine.transport import one_thread
from feda3i.errors import FedA3IError, RunError
from feda3i.metrics import dice
from feda3i.quality import SIDE, longest_side, redraw
from feda3i.recipe.trust import check_trust
from feda3i.report import html
from feda3i.report.compare import REFERENCES, Group, group_runs, section
from feda3i.report.html import Section
from feda3i.report.runs import Row, RunFacts
from feda3i.simulation.federation import federation_of

Bytes = NDArray[np.uint8]
Tell = Callable[[str], None]
Load = Callable[[Format], Cases]
KINDS = {
    "clean": "clean mask",
    "given": "mask as given",
    "redrawn": "mask as redrawn and trained on",
    "predicted": "predicted by the model",
}
LARGEST = 360  # pixels of the longer side of an embedded image; a phone shows no more


@dataclass(frozen=True)
class Picture:
    """One case of the gallery: its image, and masks by kind; ``words`` if Dice is not the point."""

    case: str
    site: str
    dice: float | None
    image: Bytes
    masks: dict[str, Bytes]
    words: str = ""


Strip = tuple[str, Sequence[Picture]]  # pictures and what they have in common


def gallery_of(
    runs: Sequence[RunFacts], most: int, trust_code: bool, load: Load | None, tell: Tell
) -> Section | None:
    """Return the worst cases of the first run of every method; ``None`` if none can be shown.

    A strip shows at most ``most`` cases. ``load`` returns other cases to show, as the model takes
    them: those of a folder, such as a site's own. ``tell`` is told why a run has no gallery.
    """
    found: list[tuple[str, list[Strip]]] = []
    for group in group_runs(runs):
        try:
            strips = [strip for strip in _strips(group, most, trust_code, load) if strip[1]]
        except FedA3IError as error:
            tell(f"no gallery of {group.runs[0].path}: {error}")
            continue
        if strips:
            found.append((f"{group.title}, seed {group.counted[0].recipe.seed}", strips))
    return cases_section("Cases, worst first", found, KINDS) if found else None


def cases_section(
    heading: str, groups: Sequence[tuple[str, Sequence[Strip]]], words: Mapping[str, str]
) -> Section:
    """Return a section of strips of pictures, with words for the kinds of their contours."""
    pictures = [one for _, strips in groups for _, ones in strips for one in ones]
    here = {kind for one in pictures for kind in one.masks}
    kinds = [(kind, word) for kind, word in words.items() if kind in here]
    shown = [(t, [(name, map(drawn, ones)) for name, ones in strips]) for t, strips in groups]
    return section("cases", heading, "Cases", kinds=kinds, groups=shown)


@one_thread()
def _strips(group: Group, most: int, trust_code: bool, load: Load | None) -> list[Strip]:
    run = group.counted[0]
    if run.state != "done":
        raise RunError("its run is not done, so there is no model to predict with")
    if load is not None:
        model = open_predictor(run.path, trust_code=trust_code)
        cases = load(model.format)
        rows = score_cases(model, None, cases, range(len(cases)), False)
        pictures = _pictures(model, cases, {"given": cases.masks}, rows, most)
        return [("Cases of the given folder", pictures)]
    if group.method in REFERENCES and group.method != "clean":
        raise RunError(f"'{group.method}' has no single model for all sites")
    if run.manifest.get("engine") == "flower":
        raise RunError(
            "its cases are at its sites; a site shows its own with: feda3i report RUN --gallery 12 "
            "--data ITS-FOLDER"
        )
    check_trust(run.recipe, run.path, trust_code)
    federation = federation_of(run.recipe)
    check_data_kept(run.manifest, describe(federation), run.path)
    model = open_predictor(run.path, trust_code=trust_code)
    owner = {int(k): site for site, index in federation.sites.items() for k in index}
    sites = [owner.get(k, "") for k in range(len(federation.train))]
    train = {"given": federation.train.masks}
    if federation.clean_masks is not None:
        train = {"clean": federation.clean_masks, **train}
    test = {"clean": federation.test.masks}
    return [
        ("Test cases", _pictures(model, federation.test, test, run.test, most)),
        ("Training cases", _pictures(model, federation.train, train, run.train, most, sites)),
        ("Masks redrawn", _redrawn(run.moved, federation, most)),
    ]


def _redrawn(
    moved: Mapping[str, Sequence[float]], federation: Federation, most: int
) -> list[Picture]:
    """Return a case of each site that moved its contours, farthest first, then a second of each."""
    far = {site: by for site, by in moved.items() if any(by) and site in federation.sites}
    order = sorted(far, key=lambda site: (-max(map(abs, far[site])), site))
    places = [
        (turn, rank, site, int(k))
        for rank, site in enumerate(order)
        for turn, k in enumerate(federation.sites[site])
    ]
    pictures, sizes = [], federation.train.voxels()
    for _, _, site, k in sorted(places)[:most]:
        given = federation.train.masks[k]
        side = None if sizes is None else sizes[k].tolist()
        scale = longest_side(given.shape, side) / SIDE  # moves are told in px at 256
        own = [scale * by for by in far[site]]
        masks = {"given": given, "redrawn": redraw(given, own, side)}
        words = "moved " + ", ".join(f"{by:+.1f} px" for by in own)
        if federation.clean_masks is not None:
            clean = federation.clean_masks[k]
            before, after = (dice(mask > 0, clean > 0) for mask in masks.values())
            masks = {"clean": clean, **masks}
            words += f"; Dice with the clean mask {before:.2f}, now {after:.2f}"
        image = np.asarray(federation.train.images[k])
        pictures.append(Picture(federation.train.ids[k], site, None, image, masks, words))
    return pictures


def _pictures(
    model: Predictor,
    cases: Cases,
    masks: dict[str, Bytes],
    rows: Sequence[Row],
    most: int,
    sites: Sequence[str] = (),
) -> list[Picture]:
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row.get("dice") is not None:
            scores.setdefault(row["case"], []).append(row["dice"])
    place: dict[str, int] = {}  # a volume is shown by its slice with the largest object
    for k in sorted(range(len(cases)), key=lambda k: (np.count_nonzero(cases.masks[k]), -k)):
        place[volume_of(cases.ids[k])] = k
    place |= {case: k for k, case in enumerate(cases.ids)}
    worst = sorted((sum(v) / len(v), case) for case, v in scores.items() if case in place)[:most]
    where = [place[case] for _, case in worst]
    if not where:
        return []
    images = [np.asarray(cases.images[k]) for k in where]
    predicted = model.masks(stacked(images))
    real = cases.sites or sites
    pictures = []
    for (score, case), k, image, answer in zip(worst, where, images, predicted, strict=True):
        drawn = {kind: found[k] for kind, found in masks.items()} | {"predicted": answer}
        shown = byte_picture(image, model.format.normalise)
        pictures.append(Picture(case, real[k] if real else "", score, shown, drawn))
    return pictures


def drawn(one: Picture) -> dict[str, Any]:
    """Return a picture as the template takes it."""
    image, masks = flat(one.image, one.masks)
    score = one.words or f"Dice {html.number(one.dice)}"
    paths = [(kind, contours(mask)) for kind, mask in masks.items()]
    return {
        "case": one.case,
        "site": one.site,
        "score": score,
        "about": f"case {one.case}, {score}, with its contours",
        "address": embedded(image),
        "height": image.shape[0],
        "width": image.shape[1],
        "paths": [(kind, path) for kind, path in paths if path],
    }


def flat(image: Bytes, masks: Mapping[str, Bytes]) -> tuple[Bytes, dict[str, Bytes]]:
    """Return image ``(row, column, channel)`` and masks; of a volume, the fullest slice."""
    if image.ndim == 3:
        return image, dict(masks)
    drawn = sum((mask > 0).astype(np.int64) for mask in masks.values())
    k = int(np.asarray(drawn).sum(axis=(1, 2)).argmax()) if masks else len(image) // 2
    return image[k], {kind: mask[k] for kind, mask in masks.items()}


def embedded(image: Bytes) -> str:
    """Return an image ``(row, column, channel)`` as a data address."""
    pixels = image if image.shape[-1] == 3 else np.repeat(image[..., :1], 3, axis=-1)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    is_small = max(picture.size) <= 96
    if max(picture.size) > LARGEST:
        picture.thumbnail((LARGEST, LARGEST))
    buffer = BytesIO()
    # Small images keep every pixel; larger ones would make the file too large.
    kind, options = ("PNG", {"optimize": True}) if is_small else ("JPEG", {"quality": 88})
    picture.save(buffer, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def contours(mask: Bytes) -> str:
    """Return the outlines of all classes in a mask ``(row, column)`` as an SVG path.

    The outline may begin at any of its points.

    >>> path = contours(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.uint8))
    >>> sorted(set(path[1:].split("L")))
    ['1 1.5', '1.5 1', '1.5 2', '2 1.5']
    """
    paths = []
    for k in np.unique(mask[mask > 0]):
        # A frame of background closes the outline of what touches the border.
        padded = np.pad(mask == k, 1).astype(np.float64)
        for line in contour_generator(z=padded).lines(0.5):
            points = np.asarray(line) - 0.5
            paths.append("M" + "L".join(f"{x:.4g} {y:.4g}" for x, y in points))
    return "".join(paths)
