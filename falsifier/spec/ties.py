"""Equalities between inputs that hold in every disjunct: inputs that follow others are eliminated.

Plain equalities (x_j = x_i) are merged by union-find; other linear ones by exact elimination. What cannot be eliminated
without losing solutions (an integer input that would follow a finer one) is left to the search as two atoms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.layout import INTEGER, SINGLE

Affine = tuple[dict[int, Fraction], Fraction]  # weights of inputs, constant

_CONTRADICTION = Fraction(1, 10**9)  # constants are nearest float64 values: their sums may miss each other by rounding


@dataclass
class Ties:
    """Which of the n inputs follow which. coarse `[n]`: larger for types that hold fewer values (`Layout.coarse`)."""

    coarse: NDArray[np.int8]
    contradiction: bool = False
    _parent: dict[int, int] = field(default_factory=dict)
    _expression: dict[int, Affine] = field(default_factory=dict)
    _order: dict[int, int] = field(default_factory=dict)

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
        """x[left] = x[right], element by element. All merges come before the first `eliminate`."""
        for a, b in zip(left.tolist(), right.tolist(), strict=True):
            i, j = self.representative(a), self.representative(b)
            if i != j:
                if (-self.coarse[j], j) < (-self.coarse[i], i):
                    i, j = j, i
                self._parent[j] = i

    def representative(self, i: int) -> int:
        """The input that stands for all that equal i."""
        root = i
        while root in self._parent:
            root = self._parent[root]
        while i != root:
            self._parent[i], i = root, self._parent[i]
        return root

    def eliminate(self, weights: dict[int, Fraction], constant: Fraction, pinned: dict[int, Fraction]) -> bool:
        """Use `sum weights * x = constant` to express one input by others; False: left to the search.

        `pinned` holds the values of inputs that are constants already.
        """
        resolved, value = self.resolve((weights, -constant), pinned)
        if not resolved:
            if abs(value) > _CONTRADICTION * max(Fraction(1), abs(constant)):
                self.contradiction = True
            return value == 0 or self.contradiction
        pivot = self._pivot(resolved, value)
        if pivot is None:
            return False
        factor = -1 / resolved.pop(pivot)
        self._order[pivot] = len(self._order)
        self._expression[pivot] = ({i: w * factor for i, w in resolved.items()}, value * factor)
        return True

    def _pivot(self, weights: dict[int, Fraction], constant: Fraction) -> int | None:
        """The input to eliminate: the finest type, a weight of +-1 if there is one, the latest in the order."""
        allowed = []
        for i, weight in weights.items():
            others = [w / weight for j, w in weights.items() if j != i]
            finer = any(self.coarse[j] < self.coarse[i] for j in weights)
            whole = all(w.denominator == 1 for w in [*others, constant / weight])
            kept = self.coarse[i] == SINGLE or (self.coarse[i] == INTEGER and whole)
            if self.coarse[i] == 0 or (kept and not finer):
                allowed.append((abs(weight) != 1, -i))
        return -min(allowed)[1] if allowed else None

    def resolve(self, affine: Affine, pinned: dict[int, Fraction]) -> Affine:
        """An affine expression in terms of inputs that nothing eliminates."""
        weights, constant = affine
        out: dict[int, Fraction] = {}
        due: list[
            tuple[int, int]
        ] = []  # eliminated inputs, first eliminated first: what they equal was eliminated later

        def add(i: int, weight: Fraction) -> None:
            i = self.representative(i)
            if i not in out and i in self._order:
                heappush(due, (self._order[i], i))
            out[i] = out.get(i, Fraction(0)) + weight

        for i, weight in weights.items():
            add(i, weight)
        while due:
            _, i = heappop(due)
            weight = out.pop(i)
            inner, shift = self._expression[i]
            constant += weight * shift
            for j, w in inner.items():
                add(j, weight * w)
        for i in [i for i in out if i in pinned]:
            constant += out.pop(i) * pinned[i]
        return {i: w for i, w in out.items() if w}, constant

    def merged(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs that equal another one, and that one."""
        followers = np.fromiter(self._parent, np.int64, len(self._parent))
        roots = np.fromiter((self.representative(i) for i in list(self._parent)), np.int64, len(self._parent))
        return followers, roots

    def eliminated(self, pinned: dict[int, Fraction]) -> dict[int, Affine]:
        """Every input that an elimination expressed, in terms of inputs that are left."""
        return {i: self.resolve(expression, pinned) for i, expression in self._expression.items()}
