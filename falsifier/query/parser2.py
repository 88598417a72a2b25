"""The reference parser and type checker of VNN-LIB 2.0 (package `vnnlib`): text to declarations and nodes, its
errors to ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from falsifier.errors import InputError
from falsifier.query.refusals import refusal
from falsifier.query.source import shown
from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Kind,
    Negate,
    NetworkDeclaration,
    Or,
    Product,
    Reference,
    Relation,
    Sum,
    Term,
    Variable,
)

_TYPES = {
    "Real": "real",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "F8E4M3FN": "float8e4m3fn",
    "F8E5M2": "float8e5m2",
    "F8E4M3FNUZ": "float8e4m3fnuz",
    "F8E5M2FNUZ": "float8e5m2fnuz",
    "F4E2M1": "float4e2m1",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "Bool": "bool",
    "C64": "complex64",
    "C128": "complex128",
}
_RELATIONS = {
    "LessEqual": Relation.LE,
    "LessThan": Relation.LT,
    "GreaterEqual": Relation.GE,
    "GreaterThan": Relation.GT,
    "Equal": Relation.EQ,
    "NotEqual": Relation.NE,
}
_TYPE_REMEDY = f"the types are {', '.join(_TYPES.values())}"


def parse(text: str, origin: str) -> Any:
    """The package's query object.

    Raises InputError with the line, and the column where the package gives one.
    """
    import vnnlib

    try:
        return vnnlib.parse_query_string(text)
    except vnnlib.VNNLibException as e:
        raise refusal(str(e), text, origin) from None
    except (IndexError, ValueError, RuntimeError) as e:  # what its number conversions raise
        raise InputError(
            f"{origin}: a number is out of the range of the 2.0 parser ({e}); write one that float64 holds, or 0.0"
        ) from None


def declarations(query: Any, header: str, origin: str) -> tuple[NetworkDeclaration, ...]:
    """The networks that a query declares; `header` is their text, for what the package does not keep."""
    return tuple(
        NetworkDeclaration(
            network.name,
            tuple(_variable(d, Kind.INPUT, header, origin) for d in network.inputs),
            tuple(_variable(d, Kind.OUTPUT, header, origin) for d in network.outputs),
            tuple(_variable(d, Kind.HIDDEN, header, origin) for d in network.hidden),
            network.equal_to or None,
            network.isometric_to or None,
        )
        for network in query.networks
    )


def _variable(definition: Any, kind: Kind, header: str, origin: str) -> Variable:
    name = definition.name
    dtype = _TYPES.get(definition.dtype.name)
    if dtype is None:
        # The package lets unknown words pass. Real, Float32 and the like are in use; they do not bind the model's type.
        found = re.search(rf"\(\s*declare-{kind.value}\s+{re.escape(name)}\s+([^\s\[]+)", header)
        word = found[1] if found else "?"
        if word.lower() not in ("real", "float", "float16", "float32", "float64"):
            line = header.count("\n", 0, found.start(1)) + 1 if found else 1
            raise InputError(f"{origin}:{line}: {name} has the unknown type '{shown(word)}'; {_TYPE_REMEDY}")
        dtype = "real"
    onnx_name = definition.onnx_name
    return Variable(name, kind, dtype, tuple(definition.shape), onnx_name.strip('"') if onnx_name else None)


class Nodes:
    """The package's expressions to ours, without recursion."""

    def __init__(self, variables: Iterable[tuple[Variable, int]], origin: str) -> None:
        """`variables` with their first slots."""
        self._variables = {variable.name: (variable, at) for variable, at in variables}
        self._origin = origin

    def formula(self, expression: Any) -> Formula:
        todo: list[tuple[Any, int]] = [(expression, -1)]  # an expression, and how many parts it has once they are done
        done: list[Any] = []
        while todo:
            node, count = todo.pop()
            if count >= 0:
                parts = tuple(done[len(done) - count :])
                del done[len(done) - count :]
                done.append(_made(node, parts))
                continue
            inner = _inner(node)
            if inner is None:
                done.append(self._leaf(node))
            else:
                todo.append((type(node).__name__, len(inner)))
                todo.extend((part, -1) for part in reversed(inner))
        result: Formula = done[0]
        return result

    def _leaf(self, node: Any) -> Term:
        if type(node).__name__ != "Var":
            return Constant(node.lexeme)
        variable, at = self._variables[node.name]
        index = tuple(node.indices)
        if any(not 0 <= i < d for i, d in zip(index, variable.shape, strict=True)):
            shown = f"{node.name}[{','.join(map(str, index))}]"
            shape = list(variable.shape)
            raise InputError(f"{self._origin}:{node.line}: index out of bounds '{shown}'; the shape is {shape}")
        return Reference(at + (int(np.ravel_multi_index(index, variable.shape)) if index else 0))


def _inner(node: Any) -> list[Any] | None:
    """The parts of an expression, None for a leaf."""
    name = type(node).__name__
    if name in _RELATIONS:
        return [node.lhs, node.rhs]
    if name in ("And", "Or", "Plus", "Multiply"):
        return list(node.args)
    if name == "Minus":
        return [node.head, *node.rest]
    return [node.expr] if name == "Negate" else None


def _made(name: str, parts: tuple[Any, ...]) -> Any:
    if name in _RELATIONS:
        return Compare(_RELATIONS[name], parts[0], parts[1])
    if name in ("And", "Or"):
        if len(parts) == 1:
            return parts[0]
        return And(parts) if name == "And" else Or(parts)
    if name == "Minus":
        return Difference(parts[0], parts[1:])
    if name == "Negate":
        return Negate(parts[0])
    return Sum(parts) if name == "Plus" else Product(parts)
