"""The query of a sample, as the tree that reading its text would give: VNN-LIB 1.0, or 2.0 where shapes have to be
stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Kind,
    NetworkDeclaration,
    Or,
    Query,
    Reference,
    Relation,
    Table,
    Variable,
)
from falsifier.witness.text import decimals

if TYPE_CHECKING:
    from falsifier.spec.samples import Comparison, Region

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Declared:
    """The network as the query declares it: shapes of input and output, element type; version_2: which VNN-LIB; result:
    the output's element type, where it is not the input's; more: shape and element type of the outputs behind the
    first, which only 2.0 can state.
    """

    inputs: Shape
    outputs: Shape
    dtype: str
    version_2: bool
    result: str = field(default="", repr=False)  # digests of samples in records read the others
    more: tuple[tuple[Shape, str], ...] = field(default=(), repr=False)

    def kind(self, k: int) -> str:
        """The declared element type of element `k` of the flat outputs."""
        for shape, kind in self._results:
            if k < math.prod(shape):
                return kind
            k -= math.prod(shape)
        raise IndexError(k)

    def whole(self, k: int | None) -> bool:
        """Whether element `k` of the flat outputs is declared as an integer, which 2.0 compares with integers alone."""
        return k is not None and self.version_2 and self.kind(k).startswith(("int", "uint"))

    def lower(self, k: int, value: float) -> float:
        """The lower end of the range of element `k`, where numbers of its type have it."""
        if not self.whole(k):
            return value
        return float(max(math.ceil(value), 0) if self.kind(k).startswith("u") else math.ceil(value))

    def upper(self, k: int, value: float) -> float:
        """The upper end."""
        return float(math.floor(value)) if self.whole(k) else value

    @property
    def _results(self) -> tuple[tuple[Shape, str], ...]:
        # 2.0 compares truth values with no number
        kinds = ((self.outputs, self.result or self.dtype), *self.more)
        return tuple((shape, "real" if kind == "bool" else kind) for shape, kind in kinds)

    def network(self) -> NetworkDeclaration:
        if self.version_2:
            names = [f"Y{i}" for i in range(1 + len(self.more))] if self.more else ["Y"]
            x, ys = (self.inputs, self.dtype), self._results
        else:
            x, y = (((math.prod(shape),), "real") for shape in (self.inputs, self.outputs))
            names, ys = ["Y"], (y,)
        outputs = tuple(Variable(name, Kind.OUTPUT, y[1], y[0]) for name, y in zip(names, ys, strict=True))
        return NetworkDeclaration("N" if self.version_2 else "", (Variable("X", Kind.INPUT, x[1], x[0]),), outputs)


def query_tree(declared: Declared, region: Region, comparisons: Sequence[Comparison], origin: str) -> Query:
    """The query; `query.write` makes its text."""
    n = len(region.lower)
    ends = np.stack([region.lower, region.upper], axis=1).ravel()  # per input its lower and its upper bound
    texts = decimals(ends)
    stop = np.cumsum([len(text) for text in texts])
    bounds = Table(
        left=np.repeat(np.arange(n), 2),
        relation=np.tile(np.array([Relation.GE.code, Relation.LE.code], dtype=np.int8), n),
        right=np.full(2 * n, -1),
        value=ends,
        start=np.concatenate([[0], stop[:-1]]),
        stop=stop,
        clauses=np.array([0, 2 * n]),
        source="".join(texts).encode(),
    )
    either = Or(tuple(And((_compare(comparison, n, declared),)) for comparison in comparisons))
    return Query((2 if declared.version_2 else 1, 0), (declared.network(),), (bounds, either), origin)


def _compare(comparison: Comparison, n: int, declared: Declared) -> Compare:
    whole = declared.whole(comparison.low if comparison.high is None else comparison.high)
    more, less = (Relation.GT, Relation.LT) if comparison.strict else (Relation.GE, Relation.LE)
    high = None if comparison.high is None else Reference(n + comparison.high)
    low = None if comparison.low is None else Reference(n + comparison.low)
    bound = _constant(comparison.bound, whole)
    if high is not None and low is not None:
        return Compare(more, high, low) if comparison.bound == 0 else Compare(more, Difference(high, (low,)), bound)
    if high is not None:
        return Compare(more, high, bound)
    if low is None:
        raise ValueError("a comparison without outputs")
    return Compare(less, low, _constant(0.0 - comparison.bound, whole))


def _constant(value: float, whole: bool) -> Constant:
    """Integers without a point where `whole`."""
    (text,) = decimals(np.array([value]))
    return Constant(text.removesuffix(".0") if whole else text)
