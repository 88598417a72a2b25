"""Reader of VNN-LIB 2.0: several named networks, tensors with indices, typed arithmetic.

Simple comparisons over constants and elements, and the ands and ors over them, go through columns as in 1.0.
Declarations and every other assert go to the reference parser (`parser2`), with their places kept, and so does the
first comparison of each combination of variables, relation and kind of constant, so that all of the text is
type-checked at a small part of the cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.query import parser2
from falsifier.query.columns import FLIPPED, Columns, Piece, assertions, pieces
from falsifier.query.decimals import digits, numbers, words
from falsifier.query.source import PAD, Source
from falsifier.query.structure import Index, bind, levels, reduced, simple
from falsifier.query.tokens import Token, Tokens, forms
from falsifier.query.tree import Formula, Query, Variable

_ASSERT = re.compile(rb"\(\s*assert\b")
_VERSION = re.compile(r"(\(\s*vnnlib-version\s*<\s*2\s*\.\s*)(\d+)(\s*>)")
_COMMENT_OR_STRING = re.compile(rb';[^\r\n]*|"[^"]*"')
_DEPTH = 2000  # the reference parser recurses and would take the process with it
_LARGEST = 10**8  # elements of all variables: some gigabytes
_LONGEST_INTEGER = 18  # digits: the reference parser reads integers as int64
_FEW = 16  # variables: every token is compared with the name of each
_HASHED = 64  # bytes of a name that its hash looks at
_ODD = np.uint64(0x9E3779B97F4A7C15)
_TRUE = "(assert (<= 0.0 1.0))"


@dataclass(frozen=True)
class _Snippet:
    """What the reference parser gets: a whole assert, whose formula goes to a place in the parts, or (place -1)
    one comparison.
    """

    start: int
    stop: int
    place: int = -1


@dataclass
class _Reader:
    """State of one reading: what is declared, the parts of the query so far, and what the reference parser is to
    see.
    """

    source: Source
    variables: list[tuple[Variable, int]]
    beyond: NDArray[np.bool_]
    owner: NDArray[np.int32]
    parts: list[Piece | Formula | None] = field(default_factory=list)
    snippets: list[_Snippet] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)


def read(text: bytes, origin: str) -> Query:
    """Parse a 2.0 text.

    Raises InputError with file, line, token and remedy for whatever is malformed or does not pass the type check.
    """
    source = Source(text, origin)
    first = _ASSERT.search(source.text)
    if not first:
        if other := re.search(_ASSERT.pattern, source.text, re.IGNORECASE):
            raise source.error(other.start() + 1, other.end(), "no form is written", "write assert, in small letters")
        raise InputError(f"{origin}: the query asserts nothing; VNN-LIB 2.0 asks for at least one assert")
    header, minor = _header(source, first.start())
    networks = parser2.declarations(parser2.parse(header + _TRUE, origin), header, origin)
    query = Query((2, minor), networks, (), origin)
    size = sum(variable.size for variable in query.variables)
    if size > _LARGEST:
        raise InputError(f"{origin}: declares {size} elements, at most {_LARGEST} are read; check the shapes")
    variables = [(variable, at) for _, variable, at in query.offsets()]
    owner = np.repeat(np.arange(len(variables), dtype=np.int32), [variable.size for variable, _ in variables])
    reader = _Reader(source, variables, query.slot_kinds() > 0, owner)
    for tokens in forms(source, first.start(), source.end):
        _stretch(reader, tokens)
    _reference(reader, header, origin)
    parts = [part for part in reader.parts if part is not None]
    return Query((2, minor), networks, assertions(parts, source.text), origin)


def _header(source: Source, end: int) -> tuple[str, int]:
    """The text before the first assert without comments, its minor version made 0, and that minor version."""
    raw = source.raw[: end - PAD]
    kept = _COMMENT_OR_STRING.sub(lambda m: m[0] if m[0].startswith(b'"') else b" " * len(m[0]), raw).decode("utf-8")
    found = _VERSION.search(kept)
    if not found:
        raise InputError(f"{source.origin}:1: the version statement is missing; begin with (vnnlib-version <2.0>)")
    # The parser prints a warning to the standard output for a minor version that it does not know.
    return kept[: found.start(2)] + "0" * len(found[2]) + kept[found.end(2) :], int(found[2])


def _stretch(reader: _Reader, tokens: Tokens) -> None:
    source = reader.source
    atoms, columns, constant = _columns(reader, tokens, simple(tokens))
    _sample(reader, tokens, atoms, columns, constant)
    stream = reduced(tokens, atoms)
    bind(stream)
    depth: NDArray[np.int64] | None = None
    for level in levels(stream):
        if level.bounds:
            reader.parts.extend(pieces(stream, columns, level.low, level.high))
            continue
        if depth is None:
            depth = np.cumsum(
                (tokens.kind == Token.OPEN).view(np.int8) - (tokens.kind == Token.CLOSE).view(np.int8), dtype=np.int64
            )
        a, b = int(stream.token[level.low]), int(stream.token[level.high - 1])
        start, stop = int(tokens.start[a]), int(tokens.stop[b])
        if int(depth[a : b + 1].max()) > _DEPTH:
            raise source.error(
                start,
                start + 1,
                f"brackets nested more than {_DEPTH} deep from",
                "flatten the ands and ors of this assert",
            )
        if tokens.kind[a] != Token.OPEN or tokens.kind[a + 1] != Token.ASSERT:
            at = a if tokens.kind[a] != Token.OPEN else a + 1
            raise source.error(
                int(tokens.start[at]),
                int(tokens.stop[at]),
                "only asserts may follow the first assert, not",
                "move or remove it",
            )
        reader.snippets.append(_Snippet(start, stop, len(reader.parts)))
        reader.parts.append(None)


def _columns(reader: _Reader, tokens: Tokens, atoms: Index) -> tuple[Index, Columns, NDArray[np.int8]]:
    """The comparisons that are simple by 2.0's rules, their columns, and the kind of constant: 0 none, 1 decimal, 2
    integer, 3 negative integer.

    What is not (an undeclared name, an index out of bounds, an exponent) is left to the reference parser, and its
    message.
    """
    source, kind = reader.source, tokens.kind
    swapped = kind[atoms + 1] == Token.NUMBER
    left, right = np.where(swapped, atoms + 2, atoms + 1), np.where(swapped, atoms + 1, atoms + 2)
    constant = kind[right] == Token.NUMBER
    start, stop = tokens.start[right], tokens.stop[right]
    found = numbers(source.text, start[constant], stop[constant])
    negative = found.signed & (np.frombuffer(source.text, dtype=np.uint8)[start[constant]] == ord("-"))
    whole = found.places < 0
    fine = found.plain & (found.whole > 0) & (found.places != 0) & (negative | ~found.signed)
    fine &= ~whole | (found.whole <= _LONGEST_INTEGER)
    value, sort, known = np.zeros(len(atoms)), np.zeros(len(atoms), dtype=np.int8), np.ones(len(atoms), dtype=bool)
    value[constant], sort[constant], known[constant] = found.value, np.where(whole, np.where(negative, 3, 2), 1), fine
    lefts = _slots(reader, tokens.start[left], tokens.stop[left])
    rights = np.full(len(atoms), -1, dtype=np.int64)
    rights[~constant] = _slots(reader, start[~constant], stop[~constant])
    known &= (lefts >= 0) & (constant | (rights >= 0))
    relation = np.where(swapped, FLIPPED[kind[atoms]], kind[atoms])
    beyond = reader.beyond[lefts] | (~constant & reader.beyond[rights])
    columns = Columns(
        lefts[known],
        relation[known],
        rights[known],
        value[known],
        np.where(constant, start, 0)[known],
        np.where(constant, stop, 0)[known],
        beyond[known],
    )
    return atoms[known], columns, sort[known]


def _slots(reader: _Reader, start: Index, stop: Index) -> Index:
    """The slots of the elements that tokens name, -1 where they name none."""
    out = np.full(len(start), -1, dtype=np.int64)
    if not len(start):
        return out
    text = reader.source.text
    view, data = words(text), np.frombuffer(text, dtype=np.uint8)
    low = int(start.min())
    span = data[low : int(stop.max())]
    separators = np.append(np.flatnonzero((span == ord(",")) | (span == ord("]"))) + low, len(text))
    for (variable, at), some in _candidates(reader, view, start, stop):
        name = variable.name.encode()
        mine = some[_named(view, start[some], stop[some], name)]
        if not len(mine):
            continue
        if not variable.shape:
            out[mine[stop[mine] - start[mine] == len(name)]] = at
            continue
        mine = mine[data[start[mine] + len(name)] == ord("[")]
        begin, valid, flat = (
            start[mine] + len(name) + 1,
            np.ones(len(mine), dtype=bool),
            np.zeros(len(mine), dtype=np.int64),
        )
        first = np.searchsorted(separators, begin)
        for axis, size in enumerate(variable.shape):
            end = separators[np.minimum(first + axis, len(separators) - 1)]
            last = axis == len(variable.shape) - 1
            count = end - begin
            valid &= (count > 0) & (count <= 8) & (end < stop[mine])
            index, fine = digits(view, np.where(valid, end, start[mine] + 8), np.where(valid, count, 0))
            valid &= fine & (index < size)
            valid &= (end == stop[mine] - 1) if last else data[np.where(valid, end, 0)] == ord(",")
            flat = flat * size + index.astype(np.int64)
            begin = end + 1
        out[mine[valid]] = at + flat[valid]
    return out


def _candidates(
    reader: _Reader, view: NDArray[np.uint64], start: Index, stop: Index
) -> Iterator[tuple[tuple[Variable, int], Index]]:
    """Each variable that tokens may name, and those tokens: all of them, or, of many variables, those that agree in a
    hash of the name, so that not every token is compared with every name.
    """
    if len(reader.variables) <= _FEW:
        everything = np.arange(len(start))
        yield from ((variable, everything) for variable in reader.variables)
        return
    low = int(start.min())
    span = np.frombuffer(reader.source.text, dtype=np.uint8)[low : int(stop.max())]
    brackets = np.append(np.flatnonzero(span == ord("[")) + low, len(reader.source.text))
    marks = _hashes(view, start, np.minimum(brackets[np.searchsorted(brackets, start)], stop) - start)
    order = np.argsort(marks)
    names = [variable.name.encode() for variable, _ in reader.variables]
    text = b"".join(names) + b" " * 8
    sizes = np.array([len(name) for name in names], dtype=np.int64)
    own = _hashes(words(text), np.cumsum(sizes) - sizes, sizes)
    first = np.searchsorted(marks, own, "left", order)
    last = np.searchsorted(marks, own, "right", order)
    for i in np.flatnonzero(last > first).tolist():
        yield reader.variables[i], order[first[i] : last[i]]


def _hashes(view: NDArray[np.uint64], start: Index, count: Index) -> NDArray[np.uint64]:
    """A hash of the `count` bytes from each place on: of their number, and of the first ones."""
    out = count.astype(np.uint64)
    for at in range(0, min(int(count.max()), _HASHED), 8):
        rows = np.flatnonzero(count > at)
        left = np.minimum(count[rows] - at, 8).astype(np.uint64)
        piece = view[start[rows] + at] & (np.uint64(2**64 - 1) >> (np.uint64(64) - np.uint64(8) * left))
        out[rows] = (out[rows] ^ piece) * _ODD
        out[rows] ^= out[rows] >> np.uint64(29)
    return out


def _named(view: NDArray[np.uint64], start: Index, stop: Index, name: bytes) -> Index:
    """Which tokens begin with a name."""
    mine = np.flatnonzero(stop - start >= len(name))
    for at in range(0, len(name), 8):
        piece = name[at : at + 8]
        mask = np.uint64(2 ** (8 * len(piece)) - 1)
        mine = mine[view[start[mine] + at] & mask == np.uint64(int.from_bytes(piece, "little"))]
    return mine


def _sample(reader: _Reader, tokens: Tokens, atoms: Index, columns: Columns, constant: NDArray[np.int8]) -> None:
    """Hand the reference parser one comparison of each new combination, to check the types."""
    n = len(reader.variables) + 4
    other = np.where(constant > 0, constant.astype(np.int64), 4 + reader.owner[columns.right])
    keys = (reader.owner[columns.left].astype(np.int64) * n + other) * len(FLIPPED) + columns.relation
    unique, first = np.unique(keys, return_index=True)
    for key, i in zip(unique.tolist(), first.tolist(), strict=True):
        if key not in reader.seen:
            reader.seen.add(key)
            reader.snippets.append(_Snippet(int(tokens.start[atoms[i] - 1]), int(tokens.stop[atoms[i] + 3])))


def _reference(reader: _Reader, header: str, origin: str) -> None:
    """Parse the snippets, each in the line and column that it has in the file, and put the formulas where they
    belong.
    """
    text, nodes = reader.source.text, parser2.Nodes(reader.variables, origin)
    reader.snippets.sort(key=lambda snippet: snippet.start)
    out = [header]
    end, column = PAD + len(header.encode("utf-8")), len(header) - (header.rfind("\n") + 1)
    for snippet in reader.snippets:
        gap = text.count(b"\n", end, snippet.start) if snippet.start > end else 0
        column = 0 if gap else column
        before = b"" if snippet.place >= 0 else b"(assert "
        wanted = snippet.start - (text.rfind(b"\n", 0, snippet.start) + 1 or PAD) - len(before)
        piece = b"".join((b"\n" * gap, b" " * max(wanted - column, 0), before, text[snippet.start : snippet.stop]))
        out.append(piece.decode("utf-8") + ")" * len(before[:1]))
        column = len(out[-1]) - (out[-1].rfind("\n") + 1) + (0 if b"\n" in piece else column)
        end = max(end, snippet.stop)
    query = parser2.parse("".join(out), origin)
    for snippet, assertion in zip(reader.snippets, query.assertions, strict=True):
        if snippet.place >= 0:
            reader.parts[snippet.place] = nodes.formula(assertion.expr)
