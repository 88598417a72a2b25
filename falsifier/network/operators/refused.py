"""Operators that no batched program can express, each with its reason: networks with them run one sample at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.program import Builder, Operand

_RANDOM, _TEXT = "it is random", "it is no function of numbers"
_REASONS = {
    "how many results there are depends on the input": "NonZero NonMaxSuppression Unique",
    "its shape depends on the input": "ConstantOfShape Range",
    _RANDOM: "Bernoulli Multinomial RandomNormalLike RandomUniformLike",
    "a graph per entry of a sequence is not lowered": "SequenceMap",
    _TEXT: ("ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"),
}

NOWHERE = frozenset(f"{_REASONS[_RANDOM]} {_REASONS[_TEXT]}".split())
"""Those of them that give a network no answer at all: what they compute is random, or not of numbers."""


def _refuse(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    reason = next(reason for reason, names in _REASONS.items() if node.op in names.split())
    raise UnsupportedError(reason)


LOWERINGS = {op: _refuse for names in _REASONS.values() for op in names.split()}
PRIMITIVES: dict[str, Any] = {}
