"""Which inputs are images, and what the pictures show pixel by pixel."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.campaign.report.pictures import ImageShape, image_shape, png, triple, value_range

pytest.importorskip("PIL", reason="the extra [report]")


def pixels(address: str) -> NDArray[np.uint8]:
    from PIL import Image

    head, _, data = address.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 32, 40), ImageShape(32, 40, 3, channels_last=False)),
        ((1, 1, 28, 28), ImageShape(28, 28, 1, channels_last=False)),
        ((1, 30, 30, 3), ImageShape(30, 30, 3, channels_last=True)),
        ((28, 28, 1), ImageShape(28, 28, 1, channels_last=True)),
        ((1, 1, 1, 5), None),
        ((1, 784), None),
        ((2, 3, 32, 32), None),
        ((1, 4, 32, 32), None),
        ((), None),
    ],
)
def test_shapes(shape: tuple[int, ...], expected: ImageShape | None) -> None:
    assert image_shape(shape) == expected


def test_channels_stand_where_the_shape_has_them() -> None:
    flat = np.arange(3 * 8 * 9) / 255
    first = pixels(png(ImageShape(8, 9, 3, channels_last=False).pixels(flat)))
    assert first[1, 2].tolist() == [11, 72 + 11, 144 + 11]
    last = pixels(png(ImageShape(8, 9, 3, channels_last=True).pixels(flat)))
    assert last[1, 2].tolist() == [33, 34, 35]


def test_the_difference_is_amplified_around_grey() -> None:
    shape = ImageShape(8, 8, 1, channels_last=False)
    centre = np.full(64, 0.5)
    witness = centre.copy()
    witness[0], witness[1], witness[2] = 0.51, 0.49, 0.505
    shown = triple(centre, witness, shape)
    assert shown.gain == pytest.approx(50)
    assert pixels(shown.difference)[0, :4].tolist() == [255, 0, 191, 128]
    assert pixels(shown.centre)[0, 0] == 128
    assert triple(centre, centre, shape).gain == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.1, 0.9], (0, 1)), ([0, 255], (0, 255)), ([-2, 3], (-2, 3)), ([0, 2.5], (0, 2.5)), ([-1, -1], (-1, 0))],
)
def test_black_and_white(values: list[float], expected: tuple[float, float]) -> None:
    assert value_range(np.array(values, float)) == expected


def test_large_pictures_are_made_smaller() -> None:
    assert pixels(png(np.zeros((1000, 500, 1)))).shape == (256, 128)
