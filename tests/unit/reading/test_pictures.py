import io
import zlib

import numpy as np
import pytest
from PIL import Image

from data_files import lesion
from feda3i.reading.picture import MAX_PIXELS, read_image
from feda3i.reading.problems import CaseError


def encode(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    if not isinstance(picture, Image.Image):
        picture = Image.fromarray(np.asarray(picture))
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def kinds(picture):
    return {kind for kind, _ in picture.notes}


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
@pytest.mark.parametrize("colour", [True, False])
def test_lossless_formats_are_read_as_written(kind, colour):
    image, _ = lesion(colour=colour)
    data = encode(image if colour else image[..., 0], kind)
    found = read_image(data)
    np.testing.assert_array_equal(found.pixels, image)
    assert not found.notes


def test_grey_where_colour_is_due_is_repeated_and_noted():
    image, _ = lesion(colour=False)
    found = read_image(encode(image[..., 0]), channels=3)
    np.testing.assert_array_equal(found.pixels, np.repeat(image, 3, axis=-1))
    assert kinds(found) == {"grey where colour is due"}


def test_colour_where_grey_is_due_is_noted_only_if_there_is_colour():
    image, _ = lesion()
    assert kinds(read_image(encode(image), channels=1)) == {"colour where grey is due"}
    same = np.repeat(image[..., :1], 3, axis=-1)
    found = read_image(encode(same), channels=1)
    assert not found.notes
    np.testing.assert_array_equal(found.pixels, image[..., :1])


def test_16_bit_images_are_scaled_by_their_bits():
    values = np.array([[0, 4095, 2048, 65535]], np.uint16)
    full = read_image(encode(values))
    assert full.pixels[0, :, 0].tolist() == [0, 16, 8, 255]
    assert not full.notes
    dark = read_image(encode(values[:, :3]))
    assert "dark 16-bit image" in kinds(dark)


def test_palette_and_alpha_are_expanded_and_noted():
    image, _ = lesion()
    palette = Image.fromarray(image).quantize(64)
    found = read_image(encode(palette))
    np.testing.assert_array_equal(found.pixels, np.asarray(palette.convert("RGB")))
    assert kinds(found) == {"palette or transparency"}
    alpha = np.concatenate([image, np.full((*image.shape[:2], 1), 90, np.uint8)], axis=-1)
    found = read_image(encode(alpha))
    np.testing.assert_array_equal(found.pixels, image)
    assert kinds(found) == {"alpha channel"}


def test_cmyk_jpeg_becomes_rgb():
    image, _ = lesion()
    found = read_image(encode(Image.fromarray(image).convert("CMYK"), "JPEG"))
    assert found.pixels.shape == image.shape
    assert "colour space" in kinds(found)


def test_exif_rotation_is_applied():
    image, _ = lesion()
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its left side: turn by 90 degrees clockwise
    found = read_image(encode(image, "PNG", exif=exif))
    np.testing.assert_array_equal(found.pixels, np.rot90(image, -1))
    assert kinds(found) == {"EXIF rotation"}
    np.testing.assert_array_equal(read_image(encode(image, exif=exif), upright=False).pixels, image)


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.95])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP"])
def test_cut_files_are_refused(kind, cut):
    data = encode(lesion(height=120, width=120)[0], kind)
    with pytest.raises(CaseError):
        read_image(data[: int(len(data) * cut)])


def test_float_images_and_several_pages_are_refused():
    with pytest.raises(CaseError, match="depth"):
        read_image(encode(np.ones((4, 4), np.float32), "TIFF"))
    page = Image.fromarray(lesion()[0])
    with pytest.raises(CaseError, match="several pages"):
        read_image(encode(page, "TIFF", save_all=True, append_images=[page]))


def test_bombs_are_refused_by_their_header():
    # The header alone is there: decoding it would fail as corrupt, so the refusal came before.
    side = int(MAX_PIXELS**0.5) + 2
    for width, height in ((20_000, 20_000), (side, side)):
        header = encode(Image.new("1", (8, 8)))[:33]
        size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        chunk = header[12:16] + size + header[24:29]
        data = header[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + b"\0\0\0\0IDAT"
        with pytest.raises(CaseError, match="too large"):
            read_image(data)


def test_text_is_not_a_picture():
    with pytest.raises(CaseError, match="not a picture"):
        read_image(b"hello")
