"""Images and masks as pictures: every file has one reading, or it is refused."""

import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from data_files import lesion
from feda3i.reading.picture import MAX_PIXELS, read_image, read_mask
from feda3i.reading.problems import CaseError

COLOUR, GREY = lesion()[0], lesion(colour=False)[0]
MASK = lesion(height=64, width=64)[1]
DEEP = np.array([[0, 4095, 2048, 65535]], np.uint16)
PALETTE = Image.fromarray(COLOUR).quantize(64)
CMYK = Image.fromarray(COLOUR).convert("CMYK")
ALPHA = np.dstack([COLOUR, np.full(COLOUR.shape[:2], 90, np.uint8)])
BLACK, WHITE, RED, GREEN = (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0)


def encode(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    if not isinstance(picture, Image.Image):
        array = np.asarray(picture)
        picture = Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array)
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
@pytest.mark.parametrize("image", [COLOUR, GREY])
def test_lossless_formats_are_read_as_written(kind, image):
    found = read_image(encode(image, kind))
    np.testing.assert_array_equal(found.pixels, image)
    assert not found.notes


@pytest.mark.parametrize(
    ("picture", "channels", "expected"),
    [
        (GREY, 3, np.repeat(GREY, 3, axis=-1)),
        (np.repeat(GREY, 3, axis=-1), 1, GREY),
        (DEEP, None, np.array([[[0], [16], [8], [255]]])),
        (PALETTE, None, np.asarray(PALETTE.convert("RGB"))),
        (ALPHA, None, COLOUR),
        (CMYK, None, np.asarray(CMYK.convert("RGB"))),
    ],
)
def test_other_encodings_become_bytes(picture, channels, expected):
    found = read_image(encode(picture, "TIFF" if picture is CMYK else "PNG"), channels=channels)
    assert found.pixels.dtype == np.uint8
    np.testing.assert_array_equal(found.pixels, expected)


def test_what_is_corrected_is_noted():
    assert dict(read_image(encode(DEEP[:, :3])).notes).keys() == {"dark 16-bit image"}
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its left side: turn by 90 degrees clockwise
    data = encode(COLOUR, exif=exif)
    found = read_image(data)
    np.testing.assert_array_equal(found.pixels, np.rot90(COLOUR, -1))
    assert dict(found.notes).keys() == {"EXIF rotation"}
    np.testing.assert_array_equal(read_image(data, upright=False).pixels, COLOUR)
    found = read_mask(encode(MASK.astype(np.uint8) * 255, "JPEG", quality=60))
    np.testing.assert_array_equal(found.pixels, MASK)
    assert dict(found.notes).keys() == {"mask with values between"}


def header_of(width, height):
    """Return the header of a PNG alone: decoding it would fail as corrupt."""
    header = encode(Image.new("1", (8, 8)))[:33]
    chunk = header[12:16] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + header[24:29]
    return header[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + b"\0\0\0\0IDAT"


LARGE = {kind: encode(lesion(height=120, width=120)[0], kind) for kind in ("PNG", "JPEG", "BMP")}
SIDE = int(MAX_PIXELS**0.5) + 2
PAGE = Image.fromarray(COLOUR)
REFUSED = [
    *((".", data[: int(len(data) * share)]) for data in LARGE.values() for share in (0.2, 0.95)),
    ("depth", encode(np.ones((4, 4), np.float32), "TIFF")),
    ("several pages", encode(PAGE, "TIFF", save_all=True, append_images=[PAGE])),
    ("too large", header_of(20_000, 20_000)),
    ("too large", header_of(SIDE, SIDE)),
    ("not a picture", b"hello"),
]


@pytest.mark.parametrize(("message", "data"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_read_is_refused(message, data):
    with pytest.raises(CaseError, match=message):
        read_image(data)


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_two_valued_masks_are_exact_in_every_encoding(mask):
    bright = mask.astype(np.uint8) * 255
    deep = mask.astype(np.uint16) * 65535
    for picture in (mask, bright, mask.astype(np.uint8), deep, np.dstack([bright] * 3)):
        found = read_mask(encode(picture))
        np.testing.assert_array_equal(found.pixels, mask)
        assert not found.notes


def palette(index, *colours):
    picture = Image.fromarray(np.asarray(index, np.uint8))
    picture.putpalette([channel for colour in colours for channel in colour])
    return picture


def discs(*colours):
    """Return discs of one colour each, side by side on black."""
    image = np.zeros((40, 40 * len(colours), 3), np.uint8)
    rows, columns = np.mgrid[:40, :40]
    inside = (rows - 20) ** 2 + (columns - 20) ** 2 <= 14**2
    for place, colour in enumerate(colours):
        image[:, 40 * place : 40 * (place + 1)][inside] = colour
    return image


LABELS = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
SPECK = discs(RED)
SPECK[20, 20] = GREEN  # one pixel of another colour
HALF = np.array([[(0, 0, 0, 255), (255, 255, 255, 255), (9, 9, 9, 0)]], np.uint8)


@pytest.mark.parametrize(
    ("picture", "classes", "message"),
    [
        (LABELS, 1, "declare all classes"),
        (LABELS * 100, 2, "expected 0 to 2"),
        (np.array([[200, 255], [200, 255]], np.uint8), 1, "dark background"),
        (palette([[0, 1, 2]], BLACK, RED, GREEN), 1, "2 colours where one class is declared"),
        *((palette(i, WHITE, BLACK), 1, "without palette") for i in ([[0, 1]], [[0, 0]], [[1, 1]])),
        (discs(RED, GREEN), 1, "several colours"),
        (discs(RED, WHITE), 1, "several colours"),
        (discs(RED, GREEN), 2, "mask values"),
        (SPECK, 1, "several colours"),
        (np.array([[[1, 0, 0], [0, 1, 0], [0, 0, 0]]], np.uint8), 1, "several colours"),
        (HALF, 1, "alpha channel hides a part"),
    ],
)
def test_a_mask_that_can_be_read_in_two_ways_is_refused(picture, classes, message):
    with pytest.raises(CaseError, match=message):
        read_mask(encode(picture), classes=classes)


def test_values_and_indices_of_coloured_palettes_are_classes_and_grey_ones_are_grey():
    for picture in (LABELS, palette(LABELS, BLACK, RED, GREEN)):
        np.testing.assert_array_equal(read_mask(encode(picture), classes=2).pixels, LABELS)
    for first, other in ((WHITE, RED), (BLACK, RED), (BLACK, BLACK), (RED, WHITE)):
        for index in (1, 0, 7):
            found = read_mask(encode(palette([[0, index]], first, *[other] * 7)))
            assert found.pixels.tolist() == [[0, int(index > 0)]]
    assert read_mask(encode(palette([[0, 1]], BLACK, WHITE))).pixels.tolist() == [[0, 1]]
    assert read_mask(encode(palette([[2, 1]], WHITE, BLACK, WHITE))).pixels.tolist() == [[1, 0]]
    with Image.open(io.BytesIO(encode(MASK.astype(np.uint8) * 255, "JPEG"))) as smeared:
        found = read_mask(encode(smeared.convert("L").convert("P")))
    np.testing.assert_array_equal(found.pixels, MASK)


def test_shades_of_one_colour_are_one_class():
    for colour in (RED, WHITE, (255, 128, 0)):
        found = read_mask(encode(discs(colour, colour)))
        assert (found.pixels == discs(WHITE, WHITE)[..., 0] / 255).mean() > 0.99
    image = discs(RED)
    image[20, :6, 0] = (20, 60, 100, 140, 180, 220)  # a smoothed border
    assert read_mask(encode(image)).pixels[20, :6].tolist() == [0, 0, 0, 1, 1, 1]
