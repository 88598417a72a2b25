"""Sliding windows of pooling operators: kernel, strides, pads and dilations, resolved for one spatial shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from falsifier.errors import UnsupportedError
from falsifier.network.program import Shape


@dataclass(frozen=True)
class Windows:
    """`pads` has the begins of all axes, then the ends. `output` is the number of windows along each axis."""

    kernel: Shape
    strides: Shape
    pads: Shape
    dilations: Shape
    ceil_mode: int
    spatial: Shape  # what the windows slide over
    output: Shape

    @classmethod
    def of(cls, attributes: dict[str, Any], spatial: Shape) -> Windows:
        """From the attributes of a pooling node or primitive over `spatial`.

        Raises UnsupportedError where no window fits.
        """
        kernel = tuple(attributes["kernel_shape"])
        rank = len(kernel)
        strides = tuple(attributes.get("strides") or (1,) * rank)
        dilations = tuple(attributes.get("dilations") or (1,) * rank)
        ceil_mode = int(attributes.get("ceil_mode", 0))
        pads = tuple(attributes.get("pads") or (0,) * (2 * rank))
        automatic = attributes.get("auto_pad", "NOTSET")
        if automatic == "VALID":
            pads = (0,) * (2 * rank)
        elif automatic.startswith("SAME"):
            pads = _same(kernel, strides, spatial, automatic == "SAME_LOWER")
        output = tuple(
            _count(n, k, s, pads[i], pads[i + rank], d, ceil_mode)
            for i, (n, k, s, d) in enumerate(zip(spatial, kernel, strides, dilations, strict=True))
        )
        if min(output) < 1:
            raise UnsupportedError(f"no window of {list(kernel)} fits into {list(spatial)}: the result is empty")
        return cls(kernel, strides, pads, dilations, ceil_mode, spatial, output)

    def along(self, axis: int, spatial: Shape) -> Windows:
        """Windows of the same extent along one axis and of one entry along the others, over `spatial`."""
        rank = len(self.kernel)
        attributes = {
            "kernel_shape": [k if i == axis else 1 for i, k in enumerate(self.kernel)],
            "strides": [s if i == axis else 1 for i, s in enumerate(self.strides)],
            "pads": [p if i % rank == axis else 0 for i, p in enumerate(self.pads)],
            "dilations": [d if i == axis else 1 for i, d in enumerate(self.dilations)],
            "ceil_mode": self.ceil_mode,
        }
        return Windows.of(attributes, spatial)

    def attributes(self) -> dict[str, Any]:
        """As ONNX attributes, pads spelled out."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "pads": list(self.pads),
            "dilations": list(self.dilations),
            "ceil_mode": self.ceil_mode,
        }

    @property
    def end_pads(self) -> Shape:
        """What must be added at the end of each axis for exactly `output` windows; negative where no window reaches."""
        rank = len(self.kernel)
        return tuple(
            (o - 1) * s + (k - 1) * d + 1 - n - p
            for o, s, k, d, n, p in zip(
                self.output, self.strides, self.kernel, self.dilations, self.spatial, self.pads[:rank], strict=True
            )
        )

    @property
    def whole(self) -> bool:
        """Whether one window covers everything and nothing else."""
        return self.kernel == self.spatial and not any(self.pads) and max(self.dilations) == 1

    @property
    def tiles(self) -> bool:
        """Whether windows lie side by side, without gaps, overlap or padding (a rest at the end may belong to none)."""
        return self.kernel == self.strides and not any(self.pads) and max(self.dilations) == 1 and not self.ceil_mode


def _same(kernel: Shape, strides: Shape, spatial: Shape, lower: bool) -> Shape:
    """Pads with which ceil(n / stride) windows fit. The standard and onnxruntime leave dilations out of it."""
    needed = [(math.ceil(n / s) - 1) * s + k - n for n, s, k in zip(spatial, strides, kernel, strict=True)]
    if min(needed) < 0:
        raise UnsupportedError("automatic padding of pooling windows that leave gaps: onnxruntime refuses it, or crops")
    begins = [(p + 1) // 2 if lower else p // 2 for p in needed]
    return (*begins, *(p - b for p, b in zip(needed, begins, strict=True)))


def _count(n: int, kernel: int, stride: int, begin: int, end: int, dilation: int, ceil_mode: int) -> int:
    """Windows along one axis. With `ceil_mode` the last one may hang over the end, but must start before it."""
    room = n + begin + end - dilation * (kernel - 1) - 1
    count = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= n + begin:
        count -= 1
    return count
