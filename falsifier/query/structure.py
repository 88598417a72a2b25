"""Tokens to structure without looking at names or numbers: simple comparisons, and the ands and ors over them,
column-wise.

A *simple comparison* is `(relation operand operand)` over names and numbers. A `Stream` is the token columns in
which simple comparisons, and whatever `and`/`or` holds nothing but such, are replaced by one ITEM each; an item is
an `or` of clauses, a clause an `and` of comparisons (atoms), kept as offsets into one order of atoms. Merging a
connective is then the removal of offsets, for all connectives of one level at once. What no such step reduces stays
as tokens, for the dialect's own parser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from falsifier.query.tokens import RELATION_COUNT, Token, Tokens
from falsifier.records import record

Index = NDArray[np.int64]

_PASSES = 8  # levels of nested connectives reduced column-wise; deeper ones go through the dialect's parser
_PRODUCT = 64  # atoms: up to this size `(and a.. (or b..))` is multiplied out, so that 10^5 of them stay columns


def simple(tokens: Tokens) -> Index:
    """Index of the relation token of every simple comparison in which a name occurs."""
    kind = tokens.kind
    at = np.flatnonzero(kind < RELATION_COUNT)
    at = at[(at >= 1) & (at + 3 < len(kind))]
    left, right = kind[at + 1], kind[at + 2]
    named, numbered = left == Token.NAME, right == Token.NAME
    operands = (named & (numbered | (right == Token.NUMBER))) | (numbered & (left == Token.NUMBER))
    found: Index = at[operands & (kind[at - 1] == Token.OPEN) & (kind[at + 3] == Token.CLOSE)]
    return found


def ranges(start: Index, count: Index) -> Index:
    """start[0], start[0] + 1, .. (count[0] of them), start[1], ..: consecutive numbers, row after row."""
    total = int(count.sum())
    return np.repeat(start - np.cumsum(count) + count, count) + np.arange(total)


@dataclass
class Stream:
    """kind `[s]`, and token `[s]`: which token stands here, of an ITEM its first one.

    The j-th ITEM of the stream holds clauses `items[j]:items[j + 1]`; clause c holds atoms
    `order[clauses[c]:clauses[c + 1]]`.
    """

    kind: NDArray[np.int8]
    token: Index
    items: Index
    clauses: Index
    order: Index


def reduced(tokens: Tokens, atoms: Index) -> Stream:
    """The stream of `tokens`, given the relation tokens of the comparisons that count as simple."""
    n = len(atoms)
    kind = tokens.kind.copy()
    keep = np.ones(len(kind), dtype=bool)
    kind[atoms - 1] = Token.ITEM
    for i in range(4):
        keep[atoms + i] = False
    counted = np.arange(n + 1)
    stream = Stream(kind[keep], np.flatnonzero(keep), counted, counted.copy(), counted[:-1].copy())
    for _ in range(_PASSES):
        if not _reduce(stream):
            break
    return stream


def _reduce(stream: Stream) -> bool:
    """Merge every connective whose parts are items. True if there was one."""
    kind = stream.kind
    other = np.flatnonzero(kind != Token.ITEM)  # the k-th of them has other[k] - k items before it
    head = kind[other]
    k = np.flatnonzero(((head == Token.AND) | (head == Token.OR))[:-1] & (head[1:] == Token.CLOSE))
    k = k[k > 0]
    at, end = other[k], other[k + 1]
    fits = (end > at + 1) & (kind[at - 1] == Token.OPEN)
    k, at, end = k[fits], at[fits], end[fits]
    first, count = at - k, end - at - 1  # items of each connective
    conjunction = kind[at] == Token.AND
    many = np.diff(stream.items) > 1
    multiple = _sums(many, first, count)
    product = conjunction & (multiple == 1) & _worth_a_product(stream, many, first, count, at)
    done = ~conjunction | (multiple == 0) | product
    k, at, end, first, count, product = k[done], at[done], end[done], first[done], count[done], product[done]
    if not len(at):
        return False
    conjunction = kind[at] == Token.AND
    _multiply(stream, first[product], count[product], many)
    merged = np.zeros(len(stream.items) - 1, dtype=bool)
    merged[ranges(first + 1, count - 1)] = True
    joined = np.zeros(len(stream.clauses), dtype=bool)  # clause offsets that vanish: between the parts of a conjunction
    plain = conjunction & ~product
    joined[stream.items[ranges(first[plain] + 1, count[plain] - 1)]] = True
    position = np.cumsum(~joined) - 1
    stream.clauses = stream.clauses[~joined]
    stream.items = position[stream.items[np.append(~merged, True)]]
    keep = np.ones(len(kind), dtype=bool)
    keep[ranges(at, end - at + 1)] = False
    kind[at - 1] = Token.ITEM
    stream.kind, stream.token = kind[keep], stream.token[keep]
    return True


def _sums(values: NDArray[np.bool_] | Index, first: Index, count: Index) -> Index:
    total = np.concatenate(([0], np.cumsum(values)))
    return np.asarray(total[first + count] - total[first])


def _worth_a_product(
    stream: Stream, many: NDArray[np.bool_], first: Index, count: Index, at: Index
) -> NDArray[np.bool_]:
    """Where (atoms outside the one `or`) x (its clauses) + its atoms is small, and the whole is not an assert's
    own formula.
    """
    size = np.diff(stream.clauses[stream.items])
    outside = _sums(np.where(many, 0, size), first, count)
    clauses = stream.items[first + count] - stream.items[first] - (count - 1)  # every part but the `or` is one clause
    written = clauses * outside + _sums(np.where(many, size, 0), first, count)
    inside = (at < 2) | (stream.kind[at - 2] != Token.ASSERT)
    return np.asarray(inside & (written <= _PRODUCT))


def _multiply(stream: Stream, first: Index, count: Index, many: NDArray[np.bool_]) -> None:
    """Give each clause of the one many-claused part of these conjunctions the atoms of the other parts; those are left
    empty.

    Afterwards the other parts hold no clause, so that merging the items is all that remains.
    """
    if not len(first):
        return
    items, clauses = stream.items, stream.clauses
    chosen = np.flatnonzero(many)
    part = chosen[np.searchsorted(chosen, first)]  # the many-claused item of each conjunction
    n = len(clauses) - 1
    before, after = np.zeros((2, n), dtype=np.int64), np.zeros((2, n), dtype=np.int64)  # extra atoms: start, stop
    size = items[part + 1] - items[part]
    inner = ranges(items[part], size)
    before[:, inner] = np.repeat(np.stack((clauses[items[first]], clauses[items[part]])), size, axis=1)
    after[:, inner] = np.repeat(np.stack((clauses[items[part + 1]], clauses[items[first + count]])), size, axis=1)
    keep = np.ones(n, dtype=bool)
    keep[ranges(items[first], items[first + count] - items[first])] = False
    keep[inner] = True
    lows = np.stack((before[0], clauses[:-1], after[0]), axis=1)[keep]
    counts = np.stack((before[1] - before[0], np.diff(clauses), after[1] - after[0]), axis=1)[keep]
    stream.order = stream.order[ranges(lows.ravel(), counts.ravel())]
    stream.clauses = np.concatenate(([0], np.cumsum(counts.sum(axis=1))))
    stream.items = np.concatenate(([0], np.cumsum(keep)))[items]


def bind(stream: Stream) -> None:
    """Put one BOUND in the place of every assert of an item. BOUND and ITEM together number the items from here on."""
    kind = stream.kind
    at = np.flatnonzero(kind == Token.ASSERT)
    at = at[(at >= 1) & (at + 2 < len(kind))]
    at = at[(kind[at - 1] == Token.OPEN) & (kind[at + 1] == Token.ITEM) & (kind[at + 2] == Token.CLOSE)]
    replace(stream, at, 3, Token.BOUND)


def replace(stream: Stream, at: Index, count: int, kind: Token) -> None:
    """Let the opening brackets before `at` become `kind`, and the `count` entries from `at` on vanish."""
    keep = np.ones(len(stream.kind), dtype=bool)
    for i in range(count):
        keep[at + i] = False
    stream.kind[at - 1] = kind
    stream.kind, stream.token = stream.kind[keep], stream.token[keep]


@record
class Level:
    """A top-level stretch of a stream: entries `low:high` are one form, or, where `bounds`, items `low:high` are
    asserted.

    `item` numbers the first item of either.
    """

    bounds: bool
    low: int
    high: int
    item: int


def levels(stream: Stream) -> list[Level]:
    """The stream's top level in order: runs of BOUND (declarations between them do not count), and the other forms
    one by one.
    """
    kind = stream.kind
    depth = np.cumsum((kind == Token.OPEN).view(np.int8) - (kind == Token.CLOSE).view(np.int8), dtype=np.int64)
    rank = np.concatenate(([0], np.cumsum((kind == Token.ITEM) | (kind == Token.BOUND))))
    flat = (depth == 0) & (kind != Token.CLOSE) & (kind != Token.BOUND) & (kind != Token.DECLARED)  # a stray word
    low = np.flatnonzero(flat | ((kind == Token.OPEN) & (depth == 1)))
    high = np.flatnonzero(flat | ((kind == Token.CLOSE) & (depth == 0))) + 1
    out: list[Level] = []
    done = 0
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if rank[a] > done:
            out.append(Level(True, done, int(rank[a]), done))
        out.append(Level(False, a, b, int(rank[a])))
        done = int(rank[b])
    if rank[-1] > done:
        out.append(Level(True, done, int(rank[-1]), done))
    return out
