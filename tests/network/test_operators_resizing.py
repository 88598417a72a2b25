"""Resize in all modes against onnxruntime, its adjoint by the matrix of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from operator_checks import check, node_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

POSITIONS = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
IMAGE = {"x": [1, 2, 4, 5]}


def resized(
    scales: Sequence[float] | None = None,
    sizes: list[int] | None = None,
    roi: list[float] | None = None,
    **attributes: Any,
) -> Any:
    """A Resize of `IMAGE` with the operands that are given."""
    given = {
        "roi": None if roi is None else np.array(roi),
        "scales": None if scales is None else np.array(scales, dtype=np.float32),
        "sizes": None if sizes is None else np.array(sizes),
    }
    order = ["x", *(name if a is not None else "" for name, a in given.items())]
    constants = {name: a for name, a in given.items() if a is not None}
    opset = attributes.pop("opset", 19)
    shape = attributes.pop("shape", IMAGE["x"])
    while not order[-1]:
        order.pop()
    return node_model("Resize", {"x": shape}, constants, order=order, opset=opset, **attributes)


@pytest.mark.parametrize(("positions", "rounding"), list(product(POSITIONS, ROUNDINGS)))
def test_nearest(positions: str, rounding: str) -> None:
    options: dict[str, Any] = {"coordinate_transformation_mode": positions, "nearest_mode": rounding}
    for scales in ([1, 1, 2, 2], [1, 1, 1.7, 0.6]):
        check(resized(scales, mode="nearest", **options))


@pytest.mark.parametrize(("mode", "positions"), list(product(["linear", "cubic"], POSITIONS)))
def test_interpolation(mode: str, positions: str) -> None:
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": positions}
    check(resized([1, 1, 2, 2], **options))
    check(resized(sizes=[1, 2, 7, 3], opset=13, **options))
    check(resized([1, 1, 0.6, 0.6], antialias=1, **options))


def test_cubic_weights_inside_alone() -> None:
    check(resized([1, 1, 1.6, 0.6], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_aspect_ratio(policy: str, mode: str) -> None:
    check(resized(sizes=[7, 9], mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_crop(mode: str) -> None:
    """A region that lies partly outside, where `extrapolation_value` stands."""
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    check(resized(sizes=[1, 2, 3, 4], roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], extrapolation_value=10.0, **options))
    check(resized(sizes=[3, 4], roi=[0.2, 0.3, 0.6, 0.7], axes=[2, 3], **options))


@pytest.mark.parametrize(
    ("shape", "scales", "mode"),
    [
        ([1, 2, 3, 2, 3], [1, 1, 2, 2, 1.5], "linear"),
        ([1, 2, 5], [1, 1, 2], "linear"),
        ([4, 5], [2, 1.5], "linear"),
        ([5], [2], "nearest"),
        ([1, 3, 4, 2], [1, 2, 2, 1], "linear"),
        ([2, 1, 3, 2], [2, 1, 2, 1], "nearest"),
    ],
)
def test_other_shapes(shape: list[int], scales: list[float], mode: str) -> None:
    check(resized(scales, mode=mode, shape=shape, opset=13))


@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.6, 0.6], [1, 1, 2, 0.5]])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_first_opset_of_resize(scales: list[float], mode: str) -> None:
    """Positions and roundings of their own."""
    check(node_model("Resize", IMAGE, {"s": np.array(scales, dtype=np.float32)}, opset=10, mode=mode))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    scales = [1.0, 1.0, 2.0, 3.0]
    check(node_model("Upsample", IMAGE, {"s": np.array(scales)}, opset=9, mode=mode))
    check(node_model("Upsample", IMAGE, opset=7, mode=mode, scales=scales))


def test_nothing_to_resize_costs_nothing() -> None:
    lowered = lower(resized([1, 1, 1, 1]))
    assert [p.op for p in lowered.program.primitives] == ["Identity"]


def test_size_from_the_input_is_refused() -> None:
    model = node_model("Resize", {"x": [1, 1, 2, 2], "s": [4]}, order=["x", "", "s"], opset=13)
    with pytest.raises(UnsupportedError, match="scale depends on the input"):
        lower(model)
