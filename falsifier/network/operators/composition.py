"""Rules that write one operator in terms of others call them here, in the words of the standard and of one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import LOWERINGS, Node
from falsifier.network.program import OPSET, Builder, Carried, Operand, Value

Tensor = Value | NDArray[Any]


def compose(build: Builder, op: str, *operands: Operand, **attributes: Any) -> Tensor:
    """The first result of the ONNX operator `op` (opset 21), by its rule, or by numpy where all operands are constant.

    Raises UnsupportedError where no rule is there.
    """
    if any(isinstance(v, Value) for v in operands):
        node = Node(op, "", OPSET, attributes, ("y",))
        (result, *_) = LOWERINGS[op](build, node, operands)
        assert result is not None
        return result
    if op not in _ON_CONSTANTS:
        raise UnsupportedError(f"{op} of constants")
    return _ON_CONSTANTS[op](*operands, **attributes)


def constant(operand: Carried, what: str) -> NDArray[Any]:
    """An operand that must not depend on the inputs. Raises UnsupportedError saying `what` it is where it does."""
    if not isinstance(operand, np.ndarray):
        raise UnsupportedError(f"{what} depends on the input")
    return operand


def integers(operand: Operand, what: str) -> list[int]:
    """The entries of a constant operand as Python numbers."""
    return [int(v) for v in constant(operand, what).reshape(-1)]


def given(operands: Any, index: int) -> Operand:
    """An optional operand: None where it is omitted or the list ends before it."""
    return operands[index] if index < len(operands) else None


def as_value(build: Builder, operand: Tensor) -> Value:
    """An operand with a lane axis: a constant is repeated in every lane."""
    return operand if isinstance(operand, Value) else build.spread(operand)


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(1 / (1 + np.exp(-x)), dtype=x.dtype)


_ON_CONSTANTS: dict[str, Callable[..., NDArray[Any]]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "MatMul": np.matmul,
    "Tanh": np.tanh,
    "Sigmoid": _sigmoid,
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": lambda x, shape: x.reshape([int(d) for d in shape]),
    "Transpose": lambda x, perm: x.transpose(perm),
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Gather": lambda x, places, axis: np.take(x, places, axis),
    "Cast": lambda x, to: x.astype(_numpy_type(to)),
}


def _numpy_type(to: Any) -> Any:
    if not isinstance(to, int):
        return np.dtype(to)
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(to)
