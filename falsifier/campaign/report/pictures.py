"""Inputs as images: the centre of the box, the witness, and their difference made visible, as PNG inside the page.

Needs Pillow, which comes with the extra [report].
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_SIDE = 8  # pixels: what is smaller is a row of numbers
_MOST_SIDE = 256  # pixels of a picture in the page; larger ones are made smaller
_CHANNELS = (1, 3)
_EIGHT_BITS = 16.0  # values that reach beyond this and are not negative count from 0 to 255


@dataclass(frozen=True)
class ImageShape:
    """channels_last: `[H, W, C]`, else `[C, H, W]`."""

    height: int
    width: int
    channels: int
    channels_last: bool

    def pixels(self, flat: NDArray[np.float64]) -> NDArray[np.float64]:
        """A flat input as `[H, W, C]`."""
        if self.channels_last:
            return flat.reshape(self.height, self.width, self.channels)
        return flat.reshape(self.channels, self.height, self.width).transpose(1, 2, 0)

    def __str__(self) -> str:
        return f"{self.width}\N{MULTIPLICATION SIGN}{self.height}, {'grey' if self.channels == 1 else 'RGB'}"


@dataclass(frozen=True)
class Triple:
    """Three pictures as addresses that hold them.

    low, high: the values that are black and white; gain: by how much the difference is amplified (0: there is none).
    """

    centre: str
    witness: str
    difference: str
    low: float
    high: float
    gain: float


def image_shape(shape: Sequence[int]) -> ImageShape | None:
    """What an input of this shape is as an image: `[C, H, W]` or `[H, W, C]` after leading ones, C is 1 or 3."""
    dimensions = list(shape)
    while len(dimensions) > 3 and dimensions[0] == 1:
        dimensions.pop(0)
    if len(dimensions) != 3:
        return None
    first, middle, last = dimensions
    if first in _CHANNELS and min(middle, last) >= _LEAST_SIDE:
        return ImageShape(middle, last, first, channels_last=False)
    if last in _CHANNELS and min(first, middle) >= _LEAST_SIDE:
        return ImageShape(first, middle, last, channels_last=True)
    return None


def triple(centre: NDArray[np.float64], witness: NDArray[np.float64], shape: ImageShape) -> Triple:
    """The pictures of two flat inputs, on one scale; no change is grey in the difference, the greatest is full."""
    low, high = value_range(centre, witness)
    before, after = shape.pixels(centre), shape.pixels(witness)
    change = after - before
    most = float(np.abs(change).max(initial=0.0))
    gain = (high - low) / 2 / most if most > 0 else 0.0
    return Triple(
        centre=png((before - low) / (high - low)),
        witness=png((after - low) / (high - low)),
        difference=png(0.5 + change * gain / (high - low)),
        low=low,
        high=high,
        gain=gain,
    )


def value_range(*inputs: NDArray[np.float64]) -> tuple[float, float]:
    """Black and white: 0 and 1 or 0 and 255 where the values keep to that, else the least and the greatest."""
    low = min(float(values.min()) for values in inputs)
    high = max(float(values.max()) for values in inputs)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if low >= 0 and _EIGHT_BITS < high <= 255:
        return 0.0, 255.0
    return (low, high) if low < high else (low, low + 1)


def png(pixels: NDArray[np.float64]) -> str:
    """`[H, W, C]` from 0 to 1 as an address that holds the picture. Raises ImportError without Pillow."""
    from PIL import Image

    levels = np.round(255 * np.clip(np.nan_to_num(pixels), 0, 1)).astype(np.uint8)
    image = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)
    if max(image.size) > _MOST_SIDE:
        image.thumbnail((_MOST_SIDE, _MOST_SIDE), Image.Resampling.BOX)
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode('ascii')}"
