"""Activation patterns: which neurons are on together. Thresholds saturate at once on trained networks; patterns do not.

Inside one pattern a ReLU network is affine, so a new pattern is a new linear piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from falsifier.arrays import Array, arange, as_int64, first_of, namespace, pattern_hash


@dataclass
class Patterns:
    """A lane is novel if the pattern of its activations > 0 was not seen, nor comes earlier in the batch.

    Patterns are kept as two marks each in a table of 2^bits: once about a tenth of the table is full, one new pattern
    in a hundred passes for seen. Memory does not grow.
    """

    bits: int = 22
    channels: bool = False
    name: str = "patterns"
    _table: Array = field(default=None, repr=False)
    _count: Array = field(default=None, repr=False)

    def watch(self, layers: Sequence[str]) -> Sequence[str]:
        return layers

    def novel(self, activations: Array) -> Array:
        marks = pattern_hash(activations > 0)
        if self._table is None:
            self._table = arange(1 << self.bits, activations) < 0
            self._count = marks[:1] * 0
        mask = (1 << self.bits) - 1
        one, two = marks & mask, (marks >> self.bits) & mask
        new = ~(self._table[one] & self._table[two]) & first_of(marks)
        self._table[one] = True
        self._table[two] = True
        self._count = self._count + namespace(marks).sum(as_int64(new))
        return new

    def figures(self) -> dict[str, int]:
        return {"patterns": 0 if self._count is None else int(self._count[0])}
