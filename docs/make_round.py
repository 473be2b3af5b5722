"""Make docs/images/round.svg, one round with four synthetic sites: python docs/make_round.py.

Masks, offsets, weights and redrawn masks are computed, not drawn by hand: 16 cases a site, seed 0.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from feda3i import quality
from feda3i.geometry import signed_distance
from feda3i.noise import ContourEvolution
from feda3i.seeding import rng
from feda3i.synthetic.federations import synthetic_skin

PICTURE = Path(__file__).with_name("images") / "round.svg"
SIZE, CASES, SHOWN = 128, 16, 3
SCALE = quality.SIDE / SIZE
SITES = {"A": 14.0, "B": 3.0, "C": -2.0, "D": -10.0}
"""How far each annotator draws outside the border, in pixels at 256."""
STAGES = 5
COLOURS = {"A": "#c2410c", "B": "#15803d", "C": "#0e7490", "D": "#6d28d9"}
INK, FAINT, PANEL, LINE = "#1f2937", "#6b7280", "#f8fafc", "#cbd5e1"
TOP, STEP, THUMB = 92, 98, 84
SHARP = 2 * THUMB


def thumbnail(image: NDArray[np.uint8], true: NDArray, drawn: NDArray, colour: str) -> str:
    """Return a case with its true contour (white) and the drawn one, as a data address."""
    big = cv2.resize(image[..., ::-1], (SHARP, SHARP), interpolation=cv2.INTER_CUBIC)
    strong = tuple(int(colour[k : k + 2], 16) for k in (5, 3, 1))
    for mask, paint, width in ((true, (255, 255, 255), 2), (drawn, strong, 3)):
        large = cv2.resize(mask.astype(np.uint8), (SHARP, SHARP))
        lines, _ = cv2.findContours(large, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        big = cv2.drawContours(np.ascontiguousarray(big), lines, -1, paint, width, cv2.LINE_AA)
    _, packed = cv2.imencode(".jpg", big, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return "data:image/jpeg;base64," + base64.b64encode(packed.tobytes()).decode()


def words(x: float, y: float, said: str, size: int = 14, more: str = "") -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {more}>{said}</text>'


def head(x: float, title: str, below: str) -> list[str]:
    """Return the title of a column."""
    return [
        words(x, 38, title, 17, 'font-weight="600"'),
        words(x, 58, below, 13, f'fill="{FAINT}"'),
    ]


def arrow(x: float, y: float, length: float) -> str:
    """Return an arrow to the right."""
    return (
        f'<path d="M{x:g} {y:g} h{length:g} m-7 -5 l7 5 l-7 5" stroke="{FAINT}" fill="none" '
        'stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/>'
    )


def offsets_column(x: float, found: dict[str, quality.Offset]) -> Iterable[str]:
    """Yield each site's offset with its interval, on one axis."""
    wide = 150 / 34

    def place(value: float) -> float:
        return x + 75 + wide * value

    bottom = TOP + STEP * 3 + THUMB
    yield (
        f'<line x1="{place(0):g}" x2="{place(0):g}" y1="{TOP}" y2="{bottom}" stroke="{INK}" '
        'stroke-dasharray="4 4"/>'
    )
    yield words(place(0), bottom + 18, "border", 13, f'fill="{FAINT}" text-anchor="middle"')
    for k, (site, one) in enumerate(found.items()):
        y, colour = TOP + STEP * k + THUMB / 2, COLOURS[site]
        ends = [place(one.offset + sign * 1.96 * one.error) for sign in (-1, 1)]
        yield (
            f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="3"/>'
        )
        yield f'<circle cx="{place(one.offset):.1f}" cy="{y}" r="6" fill="{colour}"/>'
        said = f"{one.offset:+.1f} px"
        right = one.offset > 0
        more = f'fill="{colour}" text-anchor="{"start" if right else "end"}"'
        yield words(place(one.offset) + (14 if right else -14), y + 5, said, 13, more)


def weights_column(x: float, weights: NDArray[np.float64]) -> Iterable[str]:
    """Yield one bar per stage, divided by the sites' weights."""
    height = STEP * 3 + THUMB
    for stage in range(STAGES):
        y, left = float(TOP), x + 34 * stage
        for site, weight in zip(SITES, weights[:, stage], strict=True):
            tall = height * weight
            if tall < 3:  # no weight at this stage
                continue
            yield (
                f'<rect x="{left:g}" y="{y:.1f}" width="26" height="{tall - 2:.1f}" '
                f'fill="{COLOURS[site]}" rx="2"/>'
            )
            if stage in (0, STAGES - 1):
                said = f"{100 * weight:.0f} %"
                more = 'fill="#ffffff" text-anchor="middle"'
                yield words(left + 13, y + tall / 2 + 3, said, 10, more)
            y += tall
    yield words(x, TOP + height + 18, "first stage", 13, f'fill="{FAINT}"')
    more = f'fill="{FAINT}" text-anchor="end"'
    yield words(x + 34 * STAGES - 8, TOP + height + 18, "last", 13, more)


def main() -> None:
    """Compute the round and write the picture."""
    cases = synthetic_skin(sites=4, cases=CASES, test=32, size=SIZE, seed=0)
    b0 = quality.measure_edges(cases.test.images, cases.test.masks).offset
    shown, found, surveys = {}, {}, {}
    for site, part in zip(SITES, cases.sites.values(), strict=True):
        images, masks = cases.train.images[part], cases.train.masks[part]
        annotator = ContourEvolution(mu=SITES[site] / SCALE, sigma=2 / SCALE)
        drawn = np.stack([annotator(m, rng(0, "round", site, k)) for k, m in enumerate(masks)])
        one = quality.measure_edges(images, drawn)
        found[site] = quality.rescaled(replace(one, offset=one.offset - b0), SCALE)
        # Stands in for the warmed-up model: surer, the farther from the true border.
        logits = np.stack([-signed_distance(mask) / 4 for mask in masks])[:, None]
        surveys[site] = quality.survey_site([(logits, drawn)])
        moved = quality.shift_mask(drawn[SHOWN], -found[site].offset / SCALE)
        shown[site] = [
            thumbnail(images[SHOWN], masks[SHOWN], mask, COLOURS[site])
            for mask in (drawn[SHOWN], moved)
        ]
    rating = quality.rate_sites(surveys)
    weights = quality.mix_by_stage([0.25] * 4, rating.weights(list(SITES), [CASES] * 4), STAGES)
    print(rating.parts[0].grouping.labels, found, weights.round(3), sep="\n")

    parts = [
        *head(24, "Sites", "own images, own masks"),
        *head(238, "1 Survey", "a few numbers leave a site"),
        *head(468, "2 Weights per stage", "from cases to quality"),
        *head(724, "3 Average", "stage by stage"),
        *head(892, "Or redraw", "before training"),
    ]
    for k, site in enumerate(SITES):
        y = TOP + STEP * k
        for x, picture in zip((56, 892), shown[site], strict=True):
            parts.append(
                f'<image x="{x}" y="{y}" width="{THUMB}" height="{THUMB}" href="{picture}"/>'
            )
        parts.append(words(24, y + 48, site, 18, f'font-weight="600" fill="{COLOURS[site]}"'))
        parts.append(arrow(156, y + 42, 48))
    line = f'<line x1="866" x2="866" y1="24" y2="486" stroke="{LINE}"/>'
    parts.append(line)
    parts += offsets_column(242, found)
    parts += [arrow(416, 281, 40), *weights_column(468, weights), arrow(652, 281, 50)]
    sizes = (170, 130, 90, 130, 170)
    for k, tall in enumerate(sizes):
        parts.append(
            f'<rect x="{724 + 24 * k}" y="{281 - tall / 2:g}" width="16" height="{tall}" rx="4" '
            f'fill="#475569"/>'
        )
    parts.append(words(724, 400, "one model, back to", 13, f'fill="{FAINT}"'))
    parts.append(words(724, 418, "all sites: next round", 13, f'fill="{FAINT}"'))
    legend = "white: the true contour; colour: the mask of the site"
    parts.append(words(24, 506, legend, 13, f'fill="{FAINT}"'))
    PICTURE.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1040 524" role="img" '
        'font-family="system-ui, sans-serif">'
        "<title>One round of FedA3I: survey, weights per stage, average; or redrawn masks</title>"
        f'<rect width="1040" height="524" rx="12" fill="{PANEL}" stroke="{LINE}"/>'
        f'<g fill="{INK}">' + "\n".join(parts) + "</g></svg>\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
