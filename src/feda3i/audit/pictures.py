"""Pages of cases with their contours: for the eyes of those who may see the images."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from feda3i.audit.case_rows import SecondLook
from feda3i.geometry import box_around
from feda3i.report import html
from feda3i.report.gallery import Picture, cases_section

Bytes = NDArray[np.uint8]
Show = Callable[[str], tuple[Bytes, Bytes, Bytes | None]]
"""Return image ``(*space, channel)``, given mask and a model's, by a case's id."""
KINDS = {
    "given": "mask as given",
    "redrawn": "mask as redrawn",
    "predicted": "suggested by the model",
}
MARGIN = 0.25  # of the objects' extent that is shown around them


def page_of_cases(
    title: str, heading: str, groups: Mapping[str, Sequence[Picture]], notes: Sequence[str] = ()
) -> str:
    """Return a page of pictures by site, with the contours that they have."""
    shown = cases_section(heading, [("", sorted(groups.items()))], KINDS)
    return html.page(title, [shown], top=html.notice("plain", "What is shown", notes))


def page_of_looks(site: str, looks: Sequence[SecondLook], show: Show) -> str:
    """Return a site's page of the cases to look at again, zoomed to their objects."""
    return page_of_cases(
        f"{site}: cases to look at again",
        "Most conspicuous first",
        {site: [_zoomed(one, site, show) for one in looks if one.is_unusual]},
        ["A model and this site's own habit would draw these cases otherwise; that is no proof."],
    )


def _zoomed(look: SecondLook, site: str, show: Show) -> Picture:
    image, given, suggested = show(look.row.case)
    maps = {"given": given} if suggested is None else {"given": given, "predicted": suggested}
    masks = {kind: (one == look.row.class_number).view(np.uint8) for kind, one in maps.items()}
    both = np.logical_or.reduce(list(masks.values()))
    if both.any():
        extent = [np.ptp(places) for places in np.nonzero(both)]
        window = box_around(both, margin=max(2, round(MARGIN * float(max(extent)))))
        image, masks = image[window], {kind: mask[window] for kind, mask in masks.items()}
    pixels = np.clip(image, 0, 255).astype(np.uint8)
    return Picture(look.row.case, site, None, pixels, masks, look.reason)
