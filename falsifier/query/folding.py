"""Walks through formulas and terms, bottom up and without recursion: text may nest as deep as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from falsifier.query.arithmetic import operands
from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Negate,
    Or,
    Product,
    Reference,
    Sum,
    Table,
    Term,
)

T = TypeVar("T")


def fold(formula: Formula, leaf: Callable[[Compare | Table], T], join: Callable[[And | Or, list[T]], T]) -> T:
    """Bottom up through a formula, children before parents, left to right."""
    done: list[T] = []
    stack: list[tuple[Formula, bool]] = [(formula, False)]
    while stack:
        node, ready = stack.pop()
        if isinstance(node, Compare | Table):
            done.append(leaf(node))
        elif ready:
            first = len(done) - len(node.parts)
            parts = done[first:]
            del done[first:]
            done.append(join(node, parts))
        else:
            stack.append((node, True))
            stack += [(part, False) for part in reversed(node.parts)]
    return done[0]


def fold_term(
    term: Term,
    leaf: Callable[[Constant | Reference], T],
    join: Callable[[Negate | Sum | Difference | Product, list[T]], T],
) -> T:
    """As `fold`, through a term."""
    done: list[T] = []
    stack: list[tuple[Term, bool]] = [(term, False)]
    while stack:
        node, ready = stack.pop()
        if isinstance(node, Constant | Reference):
            done.append(leaf(node))
        elif ready:
            first = len(done) - len(operands(node))
            parts = done[first:]
            del done[first:]
            done.append(join(node, parts))
        else:
            stack.append((node, True))
            stack += [(part, False) for part in reversed(operands(node))]
    return done[0]


def leaves(formula: Formula) -> Iterator[Compare | Table]:
    """The comparisons of a formula, left to right."""
    stack = [formula]
    while stack:
        node = stack.pop()
        if isinstance(node, Compare | Table):
            yield node
        else:
            stack += node.parts[::-1]


def references(term: Term) -> Iterator[int]:
    """The slots that a term mentions, as often as it does."""
    stack = [term]
    while stack:
        node = stack.pop()
        if isinstance(node, Reference):
            yield node.slot
        elif not isinstance(node, Constant):
            stack += operands(node)


def degree(term: Term) -> int:
    """The degree of a term as a polynomial over slots, before anything cancels."""

    def leaf(node: Constant | Reference) -> int:
        return int(isinstance(node, Reference))

    def join(node: Negate | Sum | Difference | Product, parts: list[int]) -> int:
        return sum(parts) if isinstance(node, Product) else max(parts, default=0)

    return fold_term(term, leaf, join)


def depth(formula: Formula) -> int:
    """How deep the brackets of a formula's text nest."""

    def above(_: object, parts: list[int]) -> int:
        return 1 + max(parts, default=0)

    def leaf(node: Compare | Table) -> int:
        if isinstance(node, Table):
            return 3
        return 1 + max(fold_term(side, lambda _: 0, above) for side in (node.left, node.right))

    return fold(formula, leaf, above)


def flattened(formula: Formula) -> Formula:
    """The same formula without an `and` in an `and` or an `or` in an `or`."""

    def join(node: And | Or, parts: list[Formula]) -> Formula:
        out: list[Formula] = []
        for part in parts:
            out.extend(part.parts if isinstance(part, And | Or) and type(part) is type(node) else (part,))
        return out[0] if len(out) == 1 else type(node)(tuple(out))

    return fold(formula, lambda leaf: leaf, join)
