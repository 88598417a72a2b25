"""Columns of simple comparisons and the tables made of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from falsifier.query.structure import Index, Stream
from falsifier.query.tree import RELATIONS, Compare, Constant, Formula, Reference, Table
from falsifier.records import record, values

FLIPPED = np.array([r.flipped.code for r in RELATIONS], dtype=np.int8)  # relation code -> code with the sides exchanged


@record
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


@record
class Piece:
    """A table to be. `single`: a conjunction, which may merge with others of its kind."""

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


def pieces(stream: Stream, columns: Columns, first: int, last: int) -> list[Piece]:
    """Items `first:last`, asserted one after another: the conjunctions over inputs alone in one piece, those that
    mention more in another, every `or` in one of its own.
    """
    many = np.diff(stream.items[first : last + 1]) > 1
    starts = stream.clauses[stream.items[first : last + 1]]
    atoms = stream.order[starts[0] : starts[-1]]
    beyond = np.logical_or.reduceat(columns.beyond[atoms], starts[:-1] - starts[0])
    found: list[tuple[int, Piece]] = []  # each with the item it begins at
    for chosen in (~many & ~beyond, ~many & beyond):
        taken = columns.take(atoms[np.repeat(chosen, np.diff(starts))])
        if len(taken.left):
            found.append((first + int(np.argmax(chosen)), Piece(taken, np.array([0, len(taken.left)]), single=True)))
    for item in (first + np.flatnonzero(many)).tolist():
        found.append((item, piece(stream, columns, item, item + 1, conjoined=False)))
    return [made for _, made in sorted(found, key=lambda pair: pair[0])]


def assertions(parts: Iterable[Piece | Formula], source: bytes) -> tuple[Formula, ...]:
    """The assertions of a query: all conjunctions over inputs alone as one table, those that mention more as another,
    each where the first of its kind stood; the rest in order.
    """
    out: list[Formula | bool] = []
    single: dict[bool, list[Piece]] = {}
    for part in parts:
        if isinstance(part, Piece) and part.single:
            if part.beyond not in single:
                out.append(part.beyond)
            single.setdefault(part.beyond, []).append(part)
        else:
            out.append(part.table(source) if isinstance(part, Piece) else part)
    return tuple(_joined(single[part]).table(source) if isinstance(part, bool) else part for part in out)


def _joined(parts: list[Piece]) -> Piece:
    if len(parts) == 1:
        return parts[0]
    columns = Columns(*map(np.concatenate, zip(*(values(part.columns) for part in parts), strict=True)))
    return Piece(columns, np.array([0, len(columns.left)]), single=True)
