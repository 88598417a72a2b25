"""The operator table: one small file per operator group, holding lowering, adjoint and torch closure side by side.

A file defines two dictionaries:

* `LOWERINGS: dict[str, Lowering]`, by ONNX operator type (`"Conv"`; other domains as `"com.microsoft.Name"`): the rule that
  emits primitives for one node of any opset from 7 to 23;
* `PRIMITIVES: dict[str, PrimitiveRule]`, by the primitive's operator type: its reverse-mode adjoint (more primitives) and its
  torch closure.

`_LOWERING_FILES` and `_PRIMITIVE_FILES` name the file of each, so that only what a model uses is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from falsifier.network.program import Builder, Operand, Primitive, Value


@dataclass(frozen=True)
class Node:
    """A node of the model, decoded: `attributes` as Python values (int, float, str, bytes, list, numpy array, GraphProto)."""

    op: str
    domain: str
    version: int  # the opset that the model imports for the domain
    attributes: dict[str, Any]
    outputs: tuple[str, ...]
    name: str = ""


Lowering = Callable[[Builder, Node, Sequence[Operand]], Sequence[Operand]]
"""(builder, node, operands) -> results, one per output of the node. At least one operand is a Value (all-constant nodes are
folded before). A result may be a numpy array (Shape, Size). Raises UnsupportedError with a one-line reason."""

Gradients = Sequence[Value | None]
Adjoint = Callable[[Builder, Primitive, Gradients], Gradients]
"""(builder, primitive, gradient of each output, None where nothing flows) -> gradient of each input, None where none is needed
(constants, indices). A gradient has the stored shape and lead of the value it belongs to; summing over several uses is the
caller's work."""


@dataclass(frozen=True)
class PrimitiveRule:
    """What the engines know of a primitive. `adjoint` None: the program has no gradient graph, torch's autograd may still serve.

    `torch(inputs, attributes) -> outputs` gets torch tensors (None for an omitted input) and returns a tuple of tensors.
    """

    torch: Callable[[Sequence[Any], dict[str, Any]], tuple[Any, ...]]
    adjoint: Adjoint | None = None
