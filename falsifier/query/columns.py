"""Columns of simple comparisons and the tables made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from falsifier.query.structure import Index, Stream
from falsifier.query.tree import RELATIONS, Compare, Constant, Formula, Reference, Table

FLIPPED = np.array([r.flipped.code for r in RELATIONS], dtype=np.int8)  # relation code -> code with the sides exchanged


@dataclass(frozen=True)
class Columns:
    """Atoms as `Table` keeps them; `beyond` says which mention something else than inputs."""

    left: NDArray[np.int64]
    relation: NDArray[np.int8]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    beyond: NDArray[np.bool_]

    def take(self, order: Index) -> Columns:
        a = int(order[0]) if len(order) else 0
        if len(order) and int(order[-1]) - a == len(order) - 1 and bool((np.diff(order) == 1).all()):
            at: slice | Index = slice(a, a + len(order))
        else:
            at = order
        return Columns(
            self.left[at],
            self.relation[at],
            self.right[at],
            self.value[at],
            self.start[at],
            self.stop[at],
            self.beyond[at],
        )


@dataclass(frozen=True)
class Piece:
    """A table to be. `single`: a conjunction, which may merge with its neighbours of the same kind."""

    columns: Columns
    clauses: Index
    single: bool

    @property
    def beyond(self) -> bool:
        return bool(self.columns.beyond.any())

    def table(self, source: bytes) -> Table:
        c = self.columns
        return Table(c.left, c.relation, c.right, c.value, c.start, c.stop, self.clauses, source)


def piece(stream: Stream, columns: Columns, first: int, last: int, *, conjoined: bool) -> Piece:
    """Items `first:last` of the stream as one: and-ed where `conjoined` (each must be a single clause), else or-ed."""
    a, b = int(stream.items[first]), int(stream.items[last])
    offsets = stream.clauses[a : b + 1]
    low, high = int(offsets[0]), int(offsets[-1])
    taken = columns.take(stream.order[low:high])
    clauses = np.array([0, high - low]) if conjoined else offsets - low
    return Piece(taken, clauses, single=len(clauses) == 2)


def formula(made: Piece, source: bytes) -> Formula:
    """The piece as a part of a larger formula: one comparison as a node, anything more as a table."""
    return made.table(source) if len(made.columns.left) > 1 else comparison(made.columns, 0, source)


def comparison(c: Columns, atom: int, source: bytes) -> Compare:
    """One atom as a node."""
    left, relation, right = Reference(int(c.left[atom])), RELATIONS[c.relation[atom]], int(c.right[atom])
    if right >= 0:
        return Compare(relation, left, Reference(right))
    return Compare(relation, left, Constant(source[c.start[atom] : c.stop[atom]].decode()))


def connective(
    parts: list[Formula | int], stream: Stream, columns: Columns, source: bytes, *, conjoined: bool
) -> list[Formula]:
    """The parts of an `and` or `or` with items (given by their numbers) made tables, neighbours in one where that
    is the same.
    """
    out: list[Formula] = []
    run: list[int] = []

    def flush() -> None:
        if len(run) == 1 and stream.items[run[0] + 1] - (first := stream.items[run[0]]) == 1:
            low, high = stream.clauses[first : first + 2]
            if high - low == 1:
                out.append(comparison(columns, int(stream.order[low]), source))
                run.clear()
        if run:
            out.append(formula(piece(stream, columns, run[0], run[-1] + 1, conjoined=conjoined), source))
            run.clear()

    for part in parts:
        if not isinstance(part, int):
            flush()
            out.append(part)
        elif conjoined and stream.items[part + 1] - stream.items[part] > 1:
            flush()
            out.append(formula(piece(stream, columns, part, part + 1, conjoined=False), source))
        else:
            if run and part != run[-1] + 1:
                flush()
            run.append(part)
    flush()
    return out


def runs(stream: Stream, columns: Columns, first: int, last: int) -> Iterator[Piece]:
    """Items `first:last`, asserted one after another, as few pieces: neighbouring conjunctions over inputs alone,
    and those over more, merge.
    """
    if first == last:
        return
    many = np.diff(stream.items[first : last + 1]) > 1
    starts = stream.clauses[stream.items[first : last + 1]]
    beyond = np.logical_or.reduceat(columns.beyond[stream.order[starts[0] : starts[-1]]], starts[:-1] - starts[0])
    change = many[1:] | many[:-1] | (beyond[1:] != beyond[:-1])
    bounds = [first, *(np.flatnonzero(change) + 1 + first).tolist(), last]
    for a, b in pairwise(bounds):
        yield piece(stream, columns, a, b, conjoined=not many[a - first])


def merged(parts: Iterable[Piece | Formula], source: bytes) -> tuple[Formula, ...]:
    """The assertions of a query: neighbouring conjunctions of the same kind become one table."""
    out: list[Formula] = []
    run: list[Piece] = []

    def flush() -> None:
        if len(run) == 1:
            out.append(run[0].table(source))
        elif run:
            columns = Columns(
                *(np.concatenate([getattr(p.columns, name) for p in run]) for name in Columns.__dataclass_fields__)
            )
            out.append(Piece(columns, np.array([0, len(columns.left)]), single=True).table(source))
        run.clear()

    for part in parts:
        if isinstance(part, Piece) and part.single:
            if run and run[-1].beyond != part.beyond:
                flush()
            run.append(part)
            continue
        flush()
        out.append(part.table(source) if isinstance(part, Piece) else part)
    flush()
    return tuple(out)
