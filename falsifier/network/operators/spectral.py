"""DFT and STFT as products with constant matrices of cosines and sines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import compose, constant, given, integers
from falsifier.network.program import Builder, Operand, Value


def lower_dft(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """Along one axis; the last axis holds real and imaginary parts (or the real part alone)."""
    x = operands[0]
    if not isinstance(x, Value):
        raise UnsupportedError("the length or axis of the transform depends on the input")
    rank = len(x.shape)
    named = given(operands, 2)
    usual_axis = 1 if node.version < 20 else -2
    axis = node.attributes.get("axis", usual_axis) if named is None else integers(named, "the axis")[0]
    axis %= rank
    length = given(operands, 1)
    inverse, onesided = bool(node.attributes.get("inverse", 0)), bool(node.attributes.get("onesided", 0))
    usual = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    count = usual if length is None else integers(length, "the length of the transform")[0]
    used = min(x.shape[axis], count // 2 + 1 if inverse and onesided else count)
    parts = x.shape[-1]
    matrix = _matrix(used, count, parts, inverse, onesided, x.dtype)
    results = 1 if inverse and onesided else 2
    order = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    moved = compose(build, "Transpose", x, perm=order)
    kept = [moved.shape[i] for i in range(rank - 2)]
    if x.shape[axis] > used:
        moved = compose(build, "Slice", moved, np.array([0]), np.array([used]), np.array([rank - 2]))
    flat = compose(build, "Reshape", moved, np.array([*kept, -1]))
    product = compose(build, "MatMul", flat, matrix)
    apart = compose(build, "Reshape", product, np.array([*kept, -1, results]))
    return [compose(build, "Transpose", apart, perm=np.argsort(order).tolist())]


def _matrix(
    given_count: int, count: int, parts: int, inverse: bool, onesided: bool, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """`[given_count * parts, bins * 2]`: what each entry adds to each bin; entries beyond those given are zero.

    One-sided: bins up to half the length; inverse, the bins given stand for their mirror images too and the results are
    real, `[given_count * parts, count]`.
    """
    bins = count // 2 + 1 if onesided and not inverse else count
    angle = 2 * np.pi * ((np.arange(given_count)[:, None] * np.arange(bins)) % count) / count
    scale = 1 / count if inverse else 1.0
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle) * (1 if inverse else -1)
    real = np.stack([cosine, sine], axis=-1)  # of a real entry: [given, bins, 2]
    imaginary = np.stack([-sine, cosine], axis=-1)
    rows = np.stack([real, imaginary][:parts], axis=1)
    if inverse and onesided:
        twice = np.array([1 if k == 0 or 2 * k == count else 2 for k in range(given_count)])
        return np.asarray((rows[..., 0] * twice[:, None, None]).reshape(given_count * parts, bins), dtype=dtype)
    return np.asarray(rows.reshape(given_count * parts, bins * 2), dtype=dtype)


def lower_stft(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    """A convolution along the signal with the windowed cosines and sines of every bin as kernels."""
    signal = operands[0]
    if not isinstance(signal, Value):
        raise UnsupportedError("the window depends on the input")
    (step,) = integers(operands[1], "the step between frames")
    window, length = given(operands, 2), given(operands, 3)
    if length is not None:
        (count,) = integers(length, "the length of frames")
    elif window is not None:
        count = window.shape[0]
    else:
        raise UnsupportedError("STFT without window and frame length")
    shape = np.ones(count) if window is None else constant(window, "the window")
    parts = signal.shape[2] if len(signal.shape) > 2 else 1
    matrix = _matrix(count, count, parts, False, bool(node.attributes.get("onesided", 1)), np.dtype(np.float64))
    weighted = matrix.reshape(count, parts, -1) * shape.reshape(-1, 1, 1)
    source = build.shaped(signal, (signal.shape[0], signal.shape[1], parts))
    moved = compose(build, "Transpose", source, perm=[0, 2, 1])
    y = compose(build, "Conv", moved, np.ascontiguousarray(weighted.transpose(2, 1, 0), signal.dtype), strides=[step])
    frames, bins = y.shape[2], y.shape[1] // 2
    apart = compose(build, "Reshape", y, np.array([signal.shape[0], bins, 2, frames]))
    return [compose(build, "Transpose", apart, perm=[0, 3, 1, 2])]


LOWERINGS = {"DFT": lower_dft, "STFT": lower_stft}
PRIMITIVES: dict[str, Any] = {}
