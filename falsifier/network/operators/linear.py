"""MatMul and Gemm. With a constant matrix on the right, a sample's leading axes join the lanes: one tall product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.shape import transpose
from falsifier.network.operators.sparse import sparse_product
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value

Factor = Value | NDArray[Any]


def lower_matmul(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    a, b = operands
    assert a is not None
    assert b is not None
    return [matmul(build, a, b)]


def matmul(build: Builder, a: Factor, b: Factor) -> Value:
    """The product of numpy's `matmul`, at least one factor a Value."""
    shape = _product_shape(a.shape, b.shape)
    if (
        isinstance(a, Value)
        and isinstance(b, np.ndarray)
        and b.size == b.shape[-1] * (b.shape[-2] if b.ndim > 1 else 1)
    ):
        return build.shaped(_tall(build, a, b.reshape(b.shape[-2:]) if b.ndim > 1 else b[:, None]), shape)
    if isinstance(b, Value) and isinstance(a, np.ndarray) and a.ndim <= 2 and (len(b.shape) == 1 or b.shape[-1] == 1):
        # matrix times vectors: the vectors are rows of a tall product
        rows = b if len(b.shape) == 1 else build.shaped(b, b.shape[:-1])
        return build.shaped(_tall(build, rows, np.atleast_2d(a).T), shape)
    # one-dimensional factors are a row and a column
    left = a if len(a.shape) > 1 else _reshaped(build, a, (1, *a.shape))
    right = b if len(b.shape) > 1 else _reshaped(build, b, (*b.shape, 1))
    full = _product_shape(left.shape, right.shape)
    drop = 0  # leading axes on which both have length 1 are not stored
    while drop < len(full) - 2 and full[drop] == 1:
        drop += 1
    rank = len(full) - drop
    aligned = [_aligned(build, f, rank) for f in (left, right)]
    return build.shaped(build.emit("MatMul", aligned, full[drop:]), shape)


def _tall(build: Builder, a: Value, b: NDArray[Any]) -> Value:
    """a `[.., k]` times a constant `[k, j]`: all rows of all lanes in one product."""
    rows = build.fold(a, len(a.shape) - 1)
    y = sparse_product(build, rows, b)
    if y is None:
        y = build.emit("MatMul", [rows, np.ascontiguousarray(b)], (b.shape[1],), lead=rows.lead)
    return build.shaped(y, (*a.shape[:-1], b.shape[1]))


def _aligned(build: Builder, factor: Factor, rank: int) -> Factor:
    """A factor with `rank` axes: a Value stored so, a constant without the axes of length 1 before them."""
    shape = (1,) * (rank - len(factor.shape)) + tuple(factor.shape)
    shape = shape[len(shape) - rank :]
    return build.view(factor, shape) if isinstance(factor, Value) else factor.reshape(shape)


def _reshaped(build: Builder, factor: Factor, shape: Shape) -> Factor:
    return build.shaped(factor, shape) if isinstance(factor, Value) else factor.reshape(shape)


def _product_shape(a: Shape, b: Shape) -> Shape:
    if a[-1] != b[-2 if len(b) > 1 else -1]:
        raise UnsupportedError(f"shapes {list(a)} and {list(b)} cannot be multiplied")
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def lower_gemm(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """alpha * A' B' + beta * C; one primitive where B is constant and C a constant row."""
    a, b, c = (*operands, None)[:3]
    assert a is not None
    assert b is not None
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    if node.attributes.get("transA"):
        a = transpose(build, a, (1, 0)) if isinstance(a, Value) else a.T
    transposed = bool(node.attributes.get("transB"))
    shape = (a.shape[0], b.shape[0 if transposed else 1])
    if isinstance(a, Value) and isinstance(b, np.ndarray):
        rows = build.fold(a, 1)
        y = sparse_product(build, rows, b.T if transposed else b)
        if y is not None:
            product = _scaled(build, build.shaped(y, shape), alpha)
        else:
            row = isinstance(c, np.ndarray) and (c.size == 1 or (c.size == shape[1] == c.shape[-1]))
            weights: list[Operand] = [rows, b, np.asarray(c).reshape(-1)] if row else [rows, b]
            attributes = {"alpha": alpha, "beta": beta, "transA": 0, "transB": int(transposed)}
            product = build.shaped(build.emit("Gemm", weights, (shape[1],), lead=rows.lead, **attributes), shape)
            if row:
                return [product]
    else:
        right = (transpose(build, b, (1, 0)) if isinstance(b, Value) else b.T) if transposed else b
        product = _scaled(build, matmul(build, a, right), alpha)
    if c is None or beta == 0:
        return [product]
    return [build.elementwise("Add", [product, _scaled(build, c, beta)])]


def _scaled(build: Builder, x: Any, factor: float) -> Any:
    """A Value or an array, times a number."""
    if factor == 1:
        return x
    number = np.array(factor, dtype=x.dtype)
    return build.elementwise("Mul", [x, number]) if isinstance(x, Value) else x * number


def matmul_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    a_name, b_name = primitive.inputs
    values, constants = build.program.values, build.program.constants
    a, b = values.get(a_name), values.get(b_name)
    if a is not None and b is None and len(a.stored) == 1:
        attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
        return [build.emit("Gemm", [g, constants[b_name]], a.stored, lead=a.lead, **attributes), None]
    results: list[Value | None] = [None, None]
    if a is not None:
        right = _swapped(build, b if b is not None else constants[b_name])
        results[0] = _product_to(build, g, right, a)
    if b is not None:
        left = _swapped(build, a if a is not None else constants[a_name])
        results[1] = _product_to(build, left, g, b)
    return results


def _swapped(build: Builder, factor: Factor) -> Factor:
    """The matrices of a stack, transposed."""
    if isinstance(factor, np.ndarray):
        return np.ascontiguousarray(np.swapaxes(factor, -1, -2)) if factor.ndim > 1 else factor
    stored = factor.stored
    if 1 in stored[-2:]:
        return build.view(factor, (*stored[:-2], stored[-1], stored[-2]), factor.lead)
    rank = len(stored) + 1
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return build.emit("Transpose", [factor], (*stored[:-2], stored[-1], stored[-2]), lead=factor.lead, perm=perm)


def _product_to(build: Builder, left: Factor, right: Factor, operand: Value) -> Value:
    """The product, summed over the stack axes on which the operand was broadcast."""
    a, b = (f.stored if isinstance(f, Value) else f.shape for f in (left, right))
    full = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    lead = next(f.lead for f in (left, right) if isinstance(f, Value))
    return build.sum_to(build.emit("MatMul", [left, right], full, lead=lead), operand.stored)


def gemm_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """alpha * g B'^T; B and C are constants."""
    (g,) = gradients
    assert g is not None
    a = build.program.values[primitive.inputs[0]]
    b = build.program.constants[primitive.inputs[1]]
    attributes = {"alpha": primitive.attributes["alpha"], "beta": 1.0, "transA": 0}
    back = build.emit("Gemm", [g, b], a.stored, lead=a.lead, transB=1 - primitive.attributes["transB"], **attributes)
    return [back, *[None] * (len(primitive.inputs) - 1)]


def fuse_bias(build: Builder) -> None:
    """MatMul by a constant matrix, read by nothing but one Add of a constant row, becomes one Gemm in the Add's place.

    The MatMul stays in the program for whoever asks for its tensor; what nothing reads is not run.
    """
    program = build.program
    reads: dict[str, int] = {}
    for primitive in program.primitives:
        for name in primitive.inputs:
            reads[name] = reads.get(name, 0) + 1
    for at, primitive in enumerate(program.primitives):
        if primitive.op != "Add":
            continue
        for name, other in (primitive.inputs, primitive.inputs[::-1]):
            product, bias = build.producer(name), program.constants.get(other)
            if product is None or product.op != "MatMul" or bias is None or reads[name] != 1:
                continue
            value = program.values[name]
            matrix = program.constants.get(product.inputs[1])
            plain = len(value.stored) == 1 and matrix is not None and value.dtype.kind == "f"
            if not plain or bias.shape[-1:] not in ((), value.stored) or bias.size not in (1, value.stored[0]):
                continue
            row = build.constant(bias.reshape(-1))
            attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
            build.replace(at, Primitive("Gemm", (*product.inputs, row), primitive.outputs, attributes))
            break


def torch_gemm(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    a, b, c = (*inputs, None)[:3]
    b = b.T if attributes["transB"] else b
    alpha, beta = attributes["alpha"], attributes["beta"]
    if c is not None:
        import torch

        return (torch.addmm(c, a, b, alpha=alpha, beta=beta),)
    y = a @ b
    return (y if alpha == 1 else alpha * y,)


def torch_matmul(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    return (inputs[0] @ inputs[1],)


LOWERINGS = {"MatMul": lower_matmul, "Gemm": lower_gemm}
PRIMITIVES = {
    "MatMul": PrimitiveRule(torch_matmul, matmul_adjoint),
    "Gemm": PrimitiveRule(torch_gemm, gemm_adjoint),
}
