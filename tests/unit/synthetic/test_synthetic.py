import os
import subprocess
import sys

import cv2
import numpy as np
import pytest

from feda3i.errors import RecipeError
from feda3i.seeding import rng
from feda3i.synthetic.federations import (
    SOURCES,
    breast_case,
    skin_case,
    synthetic_breast,
    synthetic_skin,
    synthetic_volumes,
)

# SHA-256 of 2 sites x 3 cases at 48 pixels: published numbers rest on these pictures, so a change
# of the drawing must be meant.
EXPECTED = {
    synthetic_skin: "cf7ccd59efbaf50c618e9b3ee244046b297ccca93e73e730d1937c314984093c",
    synthetic_breast: "2a9e511238a59cdb8673544fdb5e40390aa50dba2599168f46bfd8d463257b88",
}
DRAW = {
    "skin": skin_case,
    **{source: lambda r, size, s=source: breast_case(r, size, s) for source in SOURCES},
}
FAMILIES = [synthetic_skin, synthetic_breast]


def many(name, count, size=64):
    made = [DRAW[name](rng(3, name, i), size) for i in range(count)]
    return np.stack([image for image, _ in made]), np.stack([mask for _, mask in made])


@pytest.mark.parametrize("make", FAMILIES)
def test_bytes_are_the_published_ones(make):
    assert make(sites=2, cases=3, test=1, size=48, seed=0).train.digest() == EXPECTED[make]


def test_bytes_do_not_depend_on_the_processor():
    """Another process without vector instructions beyond the baseline draws the same."""
    code = (
        "from feda3i.synthetic.federations import *\n"
        "for make in (synthetic_skin, synthetic_breast):\n"
        "    print(make(sites=2, cases=3, test=1, size=48).train.digest())"
    )
    plain = {
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX2 FMA3 AVX512F",
        "OPENCV_CPU_DISABLE": "AVX2,FMA3,AVX512-SKX",
    }
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.check_output(command, env={**os.environ, **plain}, text=True)
    assert printed.split() == list(EXPECTED.values())


@pytest.mark.parametrize("family", ["skin", "breast"])
def test_any_case_can_be_made_alone(family):
    make = synthetic_skin if family == "skin" else synthetic_breast
    made = make(sites=4, cases=2, test=5, size=40, seed=9)
    for part, cases in (("train", made.train), ("test", made.test)):
        draw = DRAW["skin" if family == "skin" else cases.sources[-1]]
        image, mask = draw(rng(9, f"synthetic-{family}", part, len(cases) - 1), 40)
        np.testing.assert_array_equal(cases.images[-1], image)
        np.testing.assert_array_equal(cases.masks[-1], mask)


@pytest.mark.parametrize("make", FAMILIES)
def test_more_sites_leave_the_first_ones_as_they_are(make):
    few, more = (make(sites=sites, cases=2, test=1, size=32) for sites in (2, 12))
    assert few.names() == ["site-01", "site-02"]
    assert more.names()[:2] == few.names()
    for site in few.names():
        assert few.site(site).digest() == more.site(site).digest()
    assert make(sites=101, cases=1, test=1, size=32).names()[::100] == ["site-001", "site-101"]


def test_scanners_are_given_in_turn_and_differ_to_the_eye():
    made = synthetic_breast(sites=6, cases=4, test=6, size=64)
    assert [made.site(name).sources[0] for name in made.names()] == [*SOURCES, *SOURCES]
    assert made.test.sources == (*SOURCES, *SOURCES)
    a, b, c = (many(source, 12)[0][..., 0].astype(float) for source in SOURCES)
    grain = [np.abs(np.diff(images, axis=1)).mean() for images in (b, a, c)]
    assert grain[0] > 1.5 * grain[1] > 1.5 * grain[2]
    assert c.mean() < 0.85 * a.mean()


@pytest.mark.parametrize(
    ("name", "low", "high"), [("skin", 0.03, 0.40), *[(s, 0.02, 0.25) for s in SOURCES]]
)
def test_lesions_cover_a_realistic_range(name, low, high):
    masks = many(name, 120, 48)[1]
    area = masks.mean(axis=(1, 2))
    assert (masks.max(axis=(1, 2)) == 1).all()
    assert (area > 0.5 * low).all()
    assert (area < 1.45 * high).all()
    assert np.quantile(area, 0.9) > 4 * np.quantile(area, 0.1), "sizes are too alike"
    touches = masks[:, [0, -1]].any(axis=(1, 2)) | masks[:, :, [0, -1]].any(axis=(1, 2))
    assert 0.01 < touches.mean() < 0.35
    pieces = [cv2.connectedComponents(mask)[0] - 1 for mask in masks]
    assert np.mean(np.array(pieces) == 1) > 0.97


@pytest.mark.parametrize("name", list(DRAW))
def test_border_fades_over_several_pixels(name):
    """Across the contour brightness passes one half gradually: nothing marks the true line."""
    profiles = []
    for image, mask in zip(*many(name, 24, 256), strict=True):
        inside, outside = (cv2.distanceTransform(one, cv2.DIST_L2, 5) for one in (mask, 1 - mask))
        depth = inside - outside
        grey = image.mean(axis=2)
        steps = [grey[np.abs(depth - d) < 1.5] for d in (-16, -8, -3, 3, 8, 16)]
        if min(map(len, steps)) < 50:
            continue
        far, *between, deep = (step.mean() for step in steps)
        if far - deep > 20:
            profiles.append([(far - value) / (far - deep) for value in between])
    assert len(profiles) >= 8
    outer, just_out, just_in, inner = np.median(profiles, axis=0)
    assert outer < just_out < just_in < inner + 0.05
    assert just_in - just_out < 0.6, "a crisp edge marks the contour"
    assert (just_out + just_in) / 2 == pytest.approx(0.5, abs=0.2), "the contour is off the middle"


@pytest.mark.parametrize("name", list(DRAW))
def test_looks_the_same_at_any_size(name):
    def seen(pixels, side):
        return cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA).astype(float)

    for i in range(4):
        (small_image, small_mask), (image, mask) = (DRAW[name](rng(5, i), s) for s in (64, 192))
        assert (seen(mask, 64) == small_mask).mean() > 0.98
        assert np.abs(seen(image, 16) - seen(small_image, 16)).mean() < 14


SMALL = {"sites": 1, "cases": 1, "test": 1, "size": 32}


@pytest.mark.parametrize("make", [*FAMILIES, synthetic_volumes])
@pytest.mark.parametrize(
    ("option", "value"), [("sites", 0), ("cases", -1), ("test", 0), ("size", 23), ("size", -4)]
)
def test_impossible_options_are_named(make, option, value):
    with pytest.raises(RecipeError, match=rf"{option}.*found {value}"):
        make(**{**SMALL, option: value})
    for odd in (0, -1.0, 21, float("nan")):
        with pytest.raises(RecipeError, match=r"softness from 0\.05 to 20"):
            synthetic_skin(**SMALL, softness=odd)
        with pytest.raises(RecipeError, match=r"thick from 0\.1 to 20"):
            synthetic_volumes(**SMALL, thick=odd)
    with pytest.raises(RecipeError, match="did you mean 'scanner-a'"):
        breast_case(rng(0), 32, "scaner-a")


def test_softer_borders_change_the_picture_near_the_contour_and_no_mask():
    def contrast(softness):
        cases = synthetic_skin(sites=1, cases=6, test=1, size=64, softness=softness).train
        assert (cases.masks == usual).all()
        images, masks = cases.images.astype(float).mean(axis=-1), cases.masks.astype(bool)
        square = np.ones((5, 5), np.uint8)
        near = [cv2.dilate(mask, square) > cv2.erode(mask, square) for mask in cases.masks]
        parts = zip(images, masks, near, strict=True)
        return np.mean([abs(i[n & m].mean() - i[n & ~m].mean()) for i, m, n in parts])

    usual = synthetic_skin(sites=1, cases=6, test=1, size=64).train.masks
    assert contrast(0.25) > 1.2 * contrast(1.0) > 1.2 * contrast(4.0)
