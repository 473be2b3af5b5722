"""A data set of your own is one function: options in, a federation out.

This one makes a site of every human annotator of BU-BIL (Gurari et al. 2015, single cells drawn by
experts and by crowds), a set with real annotation noise: a site trains on what its annotator drew,
and the gold standard is the clean mask. The folder holds ``images/``, ``masks/`` (the standard) and
``annotators/NAME/`` with the same file names. Try it:

    feda3i run demo data=examples/own_dataset.py:annotators data.path=FOLDER noise=none
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from feda3i.core.cases import Cases, Federation
from feda3i.core.resize import resize_mask
from feda3i.data.folder import load_folder
from feda3i.errors import DataError
from feda3i.reading.picture import read_mask
from feda3i.seeding import rng


def annotators(
    path: str | Path,
    *,
    sites: int | None = None,
    cases: int = 30,
    test: int = 60,
    size: int = 64,
    seed: int = 0,
) -> Federation:
    """Return one site per annotator.

    Parameters
    ----------
    path
        Folder with ``images/``, ``masks/`` and ``annotators/NAME/``.
    sites
        At most this many annotators, those with most masks first; all by default.
    cases
        At most this many cases per annotator.
    test
        Images set aside for testing, which no site trains on.
    size
        Side in pixels.
    seed
        Of the split and of the cases drawn.
    """
    root = Path(path).expanduser()
    # The masks in annotators/ are in no case of this folder: they are read below.
    gold = load_folder(root, size=size, channels=1, unused="allow")
    order = rng(seed, "split").permutation(len(gold))
    tested, trained = np.sort(order[:test]), np.sort(order[test:])
    drawn = {who.name: sorted(who.glob("*.png")) for who in (root / "annotators").iterdir()}
    if len(trained) == 0 or not drawn:
        raise DataError(f"'{root}' has too few images or no annotators/NAME/ folders")

    place = {gold.ids[i]: i for i in trained}
    picked: list[int] = []  # positions in ``gold``; an image may come back with other masks
    masks, ids, parts = [], [], {}
    for who in sorted(drawn, key=lambda name: (-len(drawn[name]), name))[:sites]:
        files = [file for file in drawn[who] if file.stem in place]
        chosen = sorted(rng(seed, "cases", who).permutation(len(files))[:cases])
        start = len(picked)
        for file in (files[i] for i in chosen):
            picked.append(place[file.stem])
            masks.append(resize_mask(read_mask(file.read_bytes()).pixels, (size, size)))
            ids.append(f"{who}/{file.stem}")
        if len(picked) > start:
            parts[who] = np.arange(start, len(picked))
    return Federation(
        train=Cases(tuple(ids), gold.images[picked], np.stack(masks)),
        sites=parts,
        test=gold.take(tested),
        classes=("cell",),
        clean_masks=gold.masks[picked],
        notes={"path": str(root), "licence": "see NOTICE.txt in the folder"},
    )
