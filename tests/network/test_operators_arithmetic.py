"""Pow, Mod, Min, Max, Sum, Mean, Clip and Det: broadcasting, constants on either side, gradients at ties and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operator_checks import batch, check, check_gradient, check_outputs, gradient, node_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def broadcastable(draw: Any) -> tuple[list[int], list[int]]:
    """Two shapes that broadcast, of any ranks up to 4."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    parts = []
    for _ in range(2):
        kept = draw(st.integers(0, len(shape)))
        parts.append([1 if draw(st.booleans()) else d for d in shape[len(shape) - kept :]])
    return parts[0], parts[1]


@SLOW
@given(broadcastable(), st.sampled_from(["Max", "Min", "Sum", "Mean", "Pow"]))
def test_two_tensors_broadcast(shapes: tuple[list[int], list[int]], op: str) -> None:
    model = node_model(op, {"a": shapes[0], "b": shapes[1]})
    check(model, 0.2, 2.0)


@SLOW
@given(broadcastable(), st.sampled_from(["Max", "Min", "Sum", "Mean", "Pow"]), st.booleans())
def test_a_constant_on_either_side_broadcasts(shapes: tuple[list[int], list[int]], op: str, first: bool) -> None:
    constant = np.random.default_rng(2).uniform(0.3, 1.7, size=shapes[1]).astype(np.float32)
    model = node_model(op, {"x": shapes[0]}, {"c": constant}, order=["c", "x"] if first else ["x", "c"])
    check(model, 0.2, 2.0)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_any_number_of_operands(op: str, count: int) -> None:
    model = node_model(op, {f"x{i}": [2, 3] for i in range(count)})
    x = batch(model)
    check_outputs(model, x)
    if count > 1:
        check_gradient(model, x)


@pytest.mark.parametrize("exponent", [0.5, -1.0, 1.0, 2.0, 3.0, 4.0, 0.0, -0.5, 1.7, [2.0, 0.5, 3.0]])
def test_pow_of_a_constant_exponent(exponent: Any) -> None:
    check(node_model("Pow", {"x": [2, 3]}, {"e": exponent}), 0.2, 2.0)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 4.0, -3.0])
def test_pow_of_negative_bases(exponent: float) -> None:
    check(node_model("Pow", {"x": [2, 3]}, {"e": exponent}), -2.0, -0.3)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, 0.7, 0.0, 1.0])
def test_pow_at_zero_has_a_finite_gradient(exponent: float) -> None:
    model = node_model("Pow", {"x": [2]}, {"e": exponent})
    found = gradient(model, np.zeros((1, 2), dtype=np.float32), np.array([[0.0, 1.0]]))
    assert found[0, 0] == 0
    assert np.isfinite(found).all()


def test_pow_takes_an_integer_exponent() -> None:
    check(node_model("Pow", {"x": [3]}, {"e": np.array([1, 2, 3], dtype=np.int64)}, opset=15), 0.5, 2)


def test_pow_of_both_tensors_is_finite_at_base_zero() -> None:
    model = node_model("Pow", {"x": [2], "e": [2]})
    found = gradient(model, np.array([[0.0, 1.0, 2.0, 2.0]]), np.ones((1, 2)))
    np.testing.assert_allclose(found, [[0, 2, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("opset", "bounds"),
    [(7, {"min": -0.5, "max": 0.7}), (10, {"min": -0.5}), (6, {"max": 0.3}), (6, {})],
)
def test_clip_by_attributes(opset: int, bounds: dict[str, Any]) -> None:
    model = node_model("Clip", {"x": [2, 3]}, opset=max(opset, 7), **bounds)
    x = batch(model)
    check_outputs(model, x)
    if bounds:
        check_gradient(model, x)


@pytest.mark.parametrize("order", [["x", "l", "h"], ["x", "", "h"], ["x", "l"], ["x", "l", ""]])
def test_clip_by_operands(order: list[str]) -> None:
    check(node_model("Clip", {"x": [2, 3]}, {"l": -0.5, "h": 0.7}, order=order, opset=13))


def test_clip_by_bounds_that_depend_on_the_input() -> None:
    model = node_model("Clip", {"x": [2, 3], "l": [], "h": []}, opset=13)
    x = batch(model, lanes=5)
    x[:, 6], x[:, 7] = -0.4, 0.6
    check_outputs(model, x)
    check_gradient(model, x)


def test_clip_with_crossed_bounds() -> None:
    """The upper bound wins."""
    model = node_model("Clip", {"x": [4]}, {"l": 1.0, "h": -1.0}, opset=13)
    assert (check_outputs(model, batch(model)) == -1).all()


def test_gradients_at_ties_and_bounds() -> None:
    """A pixel on a bound can move back: the gradient passes where an operand equals a constant bound."""
    clip = node_model("Clip", {"x": [3]}, {"l": 0.0, "h": 1.0}, opset=13)
    np.testing.assert_allclose(gradient(clip, np.array([[0.0, 1.0, 1.5]]), np.ones((1, 3))), [[1, 1, 0]], atol=1e-8)
    for order in (["x", "c"], ["c", "x"]):
        top = node_model("Max", {"x": [2]}, {"c": 1.0}, order=order)
        np.testing.assert_allclose(gradient(top, np.array([[1.0, 0.5]]), np.ones((1, 2))), [[1, 0]], atol=1e-8)
    both = node_model("Min", {"a": [2], "b": [2]})
    np.testing.assert_array_equal(gradient(both, np.array([[1.0, 2.0, 1.0, 0.5]]), np.ones((1, 2))), [[1, 0, 0, 1]])
    same = node_model("Max", {"a": [2]}, order=["a", "a"])
    np.testing.assert_array_equal(gradient(same, np.array([[1.0, 2.0]]), np.ones((1, 2))), [[1, 1]])


@pytest.mark.parametrize("constant", [True, False])
def test_mod_of_floats(constant: bool) -> None:
    divisor = np.array([0.7, -1.1, 0.9], dtype=np.float32)
    inputs = {"x": [2, 3]} if constant else {"x": [2, 3], "d": [3]}
    model = node_model("Mod", inputs, {"d": divisor} if constant else {}, fmod=1, opset=13)
    x = batch(model, low=1.3, high=1.6)
    if not constant:
        x[:, 6:] = divisor
    check_outputs(model, x)
    check_gradient(model, x)


def test_mod_of_integers_has_the_sign_of_the_divisor() -> None:
    model = node_model("Mod", {"a": [2], "b": [2]}, dtype=np.int32, opset=13)
    x = np.array([[-7, 7, 3, -3], [7, -7, 3, -3]], dtype=np.float32)
    np.testing.assert_array_equal(check_outputs(model, x), [[2, -2], [1, -1]])


def test_mod_of_floats_without_fmod_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="fmod"):
        lower(node_model("Mod", {"x": [2]}, {"d": 2.0}, fmod=0, opset=13))


@pytest.mark.parametrize("shape", [[1, 1], [2, 2], [2, 3, 3], [4, 4]])
def test_det(shape: list[int]) -> None:
    check(node_model("Det", {"x": shape}, opset=11), rtol=1e-4)


def test_det_of_a_singular_matrix_has_the_cofactors_as_gradient() -> None:
    model = node_model("Det", {"x": [2, 2]}, opset=11)
    found = gradient(model, np.array([[1.0, 2.0, 2.0, 4.0]]), np.ones((1, 1)))
    np.testing.assert_allclose(found, [[4, -2, -2, 1]], atol=1e-12)
