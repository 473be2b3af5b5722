"""Masks as pictures: every file has one reading, or it is refused."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from test_pictures import encode, kinds

from data_files import lesion
from feda3i.reading.picture import read_mask
from feda3i.reading.problems import CaseError

BLACK, WHITE, RED, GREEN = (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0)


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_two_valued_masks_are_exact_in_every_encoding(mask):
    for picture in (
        Image.fromarray(mask),
        Image.fromarray(mask.astype(np.uint8) * 255),
        Image.fromarray(mask.astype(np.uint8)),
        Image.fromarray(mask.astype(np.uint16) * 65535),
        Image.fromarray(np.repeat(mask[..., None].astype(np.uint8) * 255, 3, axis=-1)),
    ):
        found = read_mask(encode(picture))
        np.testing.assert_array_equal(found.pixels, mask)
        assert not found.notes


def test_mask_saved_as_jpeg_is_cut_at_half_and_noted():
    _, mask = lesion(height=64, width=64)
    found = read_mask(encode(mask.astype(np.uint8) * 255, "JPEG", quality=60))
    assert kinds(found) == {"mask with values between"}
    np.testing.assert_array_equal(found.pixels, mask)


def test_small_integers_need_declared_classes():
    values = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
    with pytest.raises(CaseError, match="declare all classes"):
        read_mask(encode(values))
    np.testing.assert_array_equal(read_mask(encode(values), classes=2).pixels, values)
    with pytest.raises(CaseError, match="expected 0 to 2"):
        read_mask(encode(values * 100), classes=2)
    with pytest.raises(CaseError, match="dark background"):
        read_mask(encode(np.array([[200, 255], [200, 255]], np.uint8)))


def palette(index, *colours, **options):
    picture = Image.fromarray(np.asarray(index, np.uint8))
    picture.putpalette([channel for colour in colours for channel in colour])
    return encode(picture, **options)


def test_the_index_of_a_palette_is_the_class():
    data = palette([[0, 1, 2]], BLACK, RED, GREEN)
    assert read_mask(data, classes=2).pixels.tolist() == [[0, 1, 2]]
    with pytest.raises(CaseError, match="2 colours where one class is declared"):
        read_mask(data)


@pytest.mark.parametrize("colours", [(WHITE, RED), (BLACK, RED), (BLACK, BLACK), (RED, WHITE)])
@pytest.mark.parametrize("index", [[[0, 1]], [[0, 0]], [[0, 7]]])
def test_coloured_palettes_mean_their_index(colours, index):
    table = [colours[0], *[colours[1]] * 7]
    assert read_mask(palette(index, *table)).pixels.tolist() == [[int(i > 0) for i in index[0]]]


@pytest.mark.parametrize("index", [[[0, 1]], [[0, 0]], [[1, 1]]])
def test_a_palette_that_can_be_read_in_two_ways_is_refused(index):
    with pytest.raises(CaseError, match="without palette"):
        read_mask(palette(index, WHITE, BLACK))


def test_a_grey_picture_stored_with_a_palette_is_grey():
    assert read_mask(palette([[0, 1]], BLACK, WHITE)).pixels.tolist() == [[0, 1]]
    assert read_mask(palette([[2, 1]], WHITE, BLACK, WHITE)).pixels.tolist() == [[1, 0]]
    _, mask = lesion(height=64, width=64)
    with Image.open(io.BytesIO(encode(mask.astype(np.uint8) * 255, "JPEG"))) as smeared:
        found = read_mask(encode(smeared.convert("L").convert("P")))
    np.testing.assert_array_equal(found.pixels, mask)


def discs(*colours):
    """Return discs of one colour each, side by side on black."""
    image = np.zeros((40, 40 * len(colours), 3), np.uint8)
    rows, columns = np.mgrid[:40, :40]
    inside = (rows - 20) ** 2 + (columns - 20) ** 2 <= 14**2
    for place, colour in enumerate(colours):
        image[:, 40 * place : 40 * (place + 1)][inside] = colour
    return image


def test_colours_are_classes_or_an_error():
    for colours in ((RED, GREEN), (RED, WHITE)):
        with pytest.raises(CaseError, match="several colours"):
            read_mask(encode(discs(*colours)))
        with pytest.raises(CaseError, match="mask values"):
            read_mask(encode(discs(*colours)), classes=2)
    for colour in (RED, WHITE, (255, 128, 0)):
        found = read_mask(encode(discs(colour, colour)))
        assert (found.pixels == discs(WHITE, WHITE)[..., 0] / 255).mean() > 0.99


def test_one_pixel_of_another_colour_or_an_alpha_channel_is_seen_and_shades_are_one_class():
    image = discs(RED)
    image[20, :6, 0] = (20, 60, 100, 140, 180, 220)  # a smoothed border
    assert read_mask(encode(image)).pixels[20, :6].tolist() == [0, 0, 0, 1, 1, 1]
    image[20, 20] = GREEN
    for several in (image, np.array([[[1, 0, 0], [0, 1, 0], [0, 0, 0]]], np.uint8)):
        with pytest.raises(CaseError, match="several colours"):
            read_mask(encode(several))
    half = np.array([[(0, 0, 0, 255), (255, 255, 255, 255), (9, 9, 9, 0)]], np.uint8)
    with pytest.raises(CaseError, match="alpha channel hides a part"):
        read_mask(encode(half))
