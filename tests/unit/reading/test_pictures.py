import io
import zlib

import numpy as np
import pytest
from PIL import Image

from data_files import lesion
from feda3i.reading.picture import MAX_PIXELS, read_image
from feda3i.reading.problems import CaseError

COLOUR, GREY = lesion()[0], lesion(colour=False)[0]
DEEP = np.array([[0, 4095, 2048, 65535]], np.uint16)
PALETTE = Image.fromarray(COLOUR).quantize(64)
CMYK = Image.fromarray(COLOUR).convert("CMYK")


def encode(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    if not isinstance(picture, Image.Image):
        array = np.asarray(picture)
        picture = Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array)
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def kinds(picture):
    return {kind for kind, _ in picture.notes}


def with_alpha(image):
    return np.concatenate([image, np.full((*image.shape[:2], 1), 90, np.uint8)], axis=-1)


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
        (with_alpha(COLOUR), None, COLOUR),
        (CMYK, None, np.asarray(CMYK.convert("RGB"))),
    ],
)
def test_other_encodings_become_bytes(picture, channels, expected):
    found = read_image(encode(picture, "TIFF" if picture is CMYK else "PNG"), channels=channels)
    assert found.pixels.dtype == np.uint8
    np.testing.assert_array_equal(found.pixels, expected)
    assert kinds(read_image(encode(DEEP[:, :3]))) == {"dark 16-bit image"}


def test_exif_rotation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its left side: turn by 90 degrees clockwise
    data = encode(COLOUR, exif=exif)
    found = read_image(data)
    np.testing.assert_array_equal(found.pixels, np.rot90(COLOUR, -1))
    assert kinds(found) == {"EXIF rotation"}
    np.testing.assert_array_equal(read_image(data, upright=False).pixels, COLOUR)


def header_of(width, height):
    """Return the header of a PNG alone: decoding it would fail as corrupt."""
    header = encode(Image.new("1", (8, 8)))[:33]
    chunk = header[12:16] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + header[24:29]
    return header[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + b"\0\0\0\0IDAT"


LARGE = lesion(height=120, width=120)[0]
SIDE = int(MAX_PIXELS**0.5) + 2
PAGE = Image.fromarray(COLOUR)
REFUSED = [
    *(
        (".", lambda k=k, c=c: encode(LARGE, k)[: int(len(encode(LARGE, k)) * c)])
        for k in ("PNG", "JPEG", "BMP")
        for c in (0.2, 0.95)
    ),
    ("depth", lambda: encode(np.ones((4, 4), np.float32), "TIFF")),
    ("several pages", lambda: encode(PAGE, "TIFF", save_all=True, append_images=[PAGE])),
    ("too large", lambda: header_of(20_000, 20_000)),
    ("too large", lambda: header_of(SIDE, SIDE)),
    ("not a picture", lambda: b"hello"),
]


@pytest.mark.parametrize(("message", "data"), REFUSED)
def test_what_cannot_be_read_is_refused(message, data):
    with pytest.raises(CaseError, match=message):
        read_image(data())
