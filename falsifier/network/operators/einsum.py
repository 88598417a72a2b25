"""Einsum: one primitive with a letter for the lanes, whose adjoint is an Einsum for each operand."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Gradients, Node, PrimitiveRule
from falsifier.network.operators.composition import Tensor
from falsifier.network.operators.elementwise import operand_named, present, sole_gradient
from falsifier.network.program import Builder, Operand, Primitive, Shape, Value


def lower_einsum(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    tensors = present(operands)
    terms, result = _explicit(node.attributes["equation"], [v.shape for v in tensors])
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, d in zip(term, tensor.shape, strict=True):
            sizes[letter] = max(d, sizes.get(letter, 1))
    lane = _unused(set("".join(terms)), 1)
    inputs: list[Tensor] = []
    written = []
    for term, tensor in zip(terms, tensors, strict=True):
        # axes of length 1 that are broadcast go: the letter stands elsewhere
        kept = [i for i, letter in enumerate(term) if tensor.shape[i] == sizes[letter]]
        stored = tuple(tensor.shape[i] for i in kept)
        letters = "".join(term[i] for i in kept)
        if isinstance(tensor, Value):
            inputs.append(build.view(tensor, stored))
            written.append(lane + letters)
        else:
            inputs.append(tensor.reshape(stored))
            written.append(letters)
    shape = tuple(sizes[letter] for letter in result)
    equation = f"{','.join(written)}->{lane}{result}"
    dtype = next(v.dtype for v in tensors if isinstance(v, Value))
    return [build.emit("Einsum", inputs, shape, dtype, equation=equation)]


def _explicit(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with letters in place of dots and of a result left out."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise UnsupportedError(f"equation {equation!r} for {len(shapes)} operands")
    many = [
        len(shape) - len(term.replace("...", "")) if "..." in term else 0
        for term, shape in zip(terms, shapes, strict=True)
    ]
    dots = _unused(set(equation), max(many))
    terms = [term.replace("...", dots[len(dots) - k :]) for term, k in zip(terms, many, strict=True)]
    if any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        raise UnsupportedError(f"equation {equation!r} does not fit the operands' axes")
    if arrow:
        return terms, right.replace("...", dots)
    count = Counter("".join(terms))
    return terms, dots + "".join(sorted(c for c, k in count.items() if k == 1 and c not in dots))


def _unused(taken: set[str], count: int) -> str:
    """`count` letters that are not taken."""
    free = [c for c in string.ascii_letters if c not in taken]
    if len(free) < count:
        raise UnsupportedError("an equation with too many letters")
    return "".join(free[:count])


def einsum_adjoint(build: Builder, primitive: Primitive, gradients: Gradients) -> Gradients:
    """The gradient takes the operand's place, and the operand's letters are the result.

    What the operand alone has is spread by ones, what it has twice (a diagonal) by a unit matrix.
    """
    g = sole_gradient(build, gradients)
    left, right = primitive.attributes["equation"].split("->")
    terms = left.split(",")
    operands = [operand_named(build, name) for name in primitive.inputs]
    results: list[Value | None] = []
    for i, (term, x) in enumerate(zip(terms, operands, strict=True)):
        if not isinstance(x, Value):
            results.append(None)
            continue
        others = [j for j in range(len(terms)) if j != i]
        known = set(right + "".join(terms[j] for j in others))
        extra: list[tuple[str, NDArray[Any]]] = []
        target, seen = "", set()
        for letter, d in zip(term[1:], x.stored, strict=True):
            if letter in seen:
                twin = _unused({*left, *right, *target, *known}, 1)
                known.add(twin)
                extra.append((letter + twin, np.eye(d, dtype=g.dtype)))
                letter = twin
            elif letter not in known:
                extra.append((letter, np.ones(d, dtype=g.dtype)))
            seen.add(letter)
            target += letter
        written = [right, *(terms[j] for j in others), *(letters for letters, _ in extra)]
        inputs = [g, *(operands[j] for j in others), *(array for _, array in extra)]
        equation = f"{','.join(written)}->{term[0]}{target}"
        results.append(build.emit("Einsum", inputs, x.stored, g.dtype, equation=equation))
    return results


def einsum_torch(inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    import torch

    return (torch.einsum(attributes["equation"], *inputs),)


LOWERINGS = {"Einsum": lower_einsum}
PRIMITIVES = {"Einsum": PrimitiveRule(einsum_torch, einsum_adjoint)}
