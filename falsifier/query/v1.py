"""Reader of VNN-LIB 1.0: the SMT-LIB dialect of `declare-const` and `assert` over X_0, X_1, .. and Y_0, Y_1, ..

The text goes through columns (`tokens`, `structure`, `columns`): simple comparisons and the ands and ors over them
never become objects. Only other forms (arithmetic, deep nesting) are parsed into nodes, on a stack (`nodes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.query.columns import FLIPPED, Columns, Piece, assertions, pieces
from falsifier.query.decimals import digits, numbers, words
from falsifier.query.nodes import Forms
from falsifier.query.source import PAD, Source
from falsifier.query.structure import Index, Stream, bind, levels, reduced, replace, simple
from falsifier.query.tokens import Token, Tokens, forms
from falsifier.query.tree import Formula, Kind, NetworkDeclaration, Query, Variable
from falsifier.records import record

_OUTPUT = 1 << 40  # added to the index of a Y until the number of X is known
_X, _Y = (np.uint64(int.from_bytes(prefix, "little")) for prefix in (b"X_", b"Y_"))
_NAME = re.compile(rb"([XY])_(0|[1-9][0-9]{0,7})")
_NAMES = "inputs are called X_0, X_1, .. and outputs Y_0, Y_1, .."


@record
class _Stretch:
    """Some whole top-level forms in columns."""

    tokens: Tokens
    stream: Stream
    columns: Columns
    declared: NDArray[np.int64]  # the tokens of the declared names
    used: NDArray[np.int64]  # the tokens of the names in simple comparisons


def read(text: bytes, origin: str) -> Query:
    """Parse a 1.0 text.

    Raises InputError with file, line, column, token and remedy for whatever is malformed.
    """
    source = Source(text, origin)
    stretches = [_stretch(source, tokens) for tokens in forms(source, PAD, source.end)]
    counts = _declarations(source, stretches)
    inputs = counts["X"]
    parts: list[Piece | Formula] = []
    for stretch in stretches:
        _check_used(source, stretch, counts)
        parts.extend(_parts(source, stretch, counts))
    network = NetworkDeclaration(
        "",
        (Variable("X", Kind.INPUT, "real", (inputs,)),),
        (Variable("Y", Kind.OUTPUT, "real", (counts["Y"],)),),
    )
    return Query((1, 0), (network,), assertions(parts, source.text), origin)


def _stretch(source: Source, tokens: Tokens) -> _Stretch:
    atoms = simple(tokens)
    columns, used = _columns(source, tokens, atoms)
    stream = reduced(tokens, atoms)
    bind(stream)
    kind = stream.kind
    constants = _matching(kind, Token.DECLARE_CONST, (Token.NAME, Token.REAL, Token.CLOSE))
    declared = stream.token[constants + 1]
    replace(stream, constants, 4, Token.DECLARED)
    functions = _matching(
        stream.kind, Token.DECLARE_FUN, (Token.NAME, Token.OPEN, Token.CLOSE, Token.REAL, Token.CLOSE)
    )
    declared = np.sort(np.concatenate((declared, stream.token[functions + 1])))
    replace(stream, functions, 6, Token.DECLARED)
    _check_types(source, tokens, stream)
    return _Stretch(tokens, stream, columns, declared, used)


def _check_types(source: Source, tokens: Tokens, stream: Stream) -> None:
    """Raise InputError for a declaration of anything but Real."""
    shapes = (Token.NAME,), (Token.OPEN, Token.CLOSE, Token.NAME)
    for command, rest in zip((Token.DECLARE_CONST, Token.DECLARE_FUN), shapes, strict=True):
        for at in _matching(stream.kind, command, (Token.NAME, *rest, Token.CLOSE)).tolist():
            name, word = stream.token[at + 1], stream.token[at + 1 + len(rest)]
            shown = source.token(int(tokens.start[name]), int(tokens.stop[name]))
            raise source.error(
                int(tokens.start[word]),
                int(tokens.stop[word]),
                f"{shown} is declared as",
                "VNN-LIB 1.0 knows Real alone: write Real (the network's own type counts), or a 2.0 query",
            )


def _matching(kind: NDArray[np.int8], first: Token, rest: tuple[Token, ...]) -> Index:
    at = np.flatnonzero(kind == first)
    at = at[(at >= 1) & (at + len(rest) < len(kind))]
    at = at[kind[at - 1] == Token.OPEN]
    for i, expected in enumerate(rest, 1):
        at = at[kind[at + i] == expected]
    return np.asarray(at)


def _columns(source: Source, tokens: Tokens, atoms: Index) -> tuple[Columns, Index]:
    """The columns of the simple comparisons, and the tokens of their names."""
    kind = tokens.kind
    swapped = kind[atoms + 1] == Token.NUMBER
    left, right = np.where(swapped, atoms + 2, atoms + 1), np.where(swapped, atoms + 1, atoms + 2)
    constant = kind[right] == Token.NUMBER
    relation = kind[atoms]
    if bool((relation == Token.NE).any()):
        at = int(atoms[int(np.argmax(relation == Token.NE))])
        raise source.error(
            int(tokens.start[at]),
            int(tokens.stop[at]),
            "VNN-LIB 1.0 has no comparison",
            "write an or of < and >, or a 2.0 query",
        )
    relation = np.where(swapped, FLIPPED[relation], relation)
    start, stop = np.where(constant, tokens.start[right], 0), np.where(constant, tokens.stop[right], 0)
    value = np.zeros(len(atoms))
    found = numbers(source.text, start[constant], stop[constant]).value
    if bool(np.isnan(found).any()):
        at = int(np.flatnonzero(constant)[int(np.argmax(np.isnan(found)))])
        raise source.error(int(start[at]), int(stop[at]), "not a number", "write it like -1.5 or 2e-3")
    value[constant] = found
    slots = np.full(len(atoms), -1, dtype=np.int64)
    slots[~constant] = _slots(source, tokens, right[~constant])
    lefts = _slots(source, tokens, left)
    beyond = (lefts >= _OUTPUT) | (slots >= _OUTPUT)
    return Columns(lefts, relation, slots, value, start, stop, beyond), np.concatenate((left, right[~constant]))


def _slots(source: Source, tokens: Tokens, names: Index) -> Index:
    """The index of each X, the index of each Y plus _OUTPUT."""
    start, stop = tokens.start[names], tokens.stop[names]
    index, valid = _indices(source, start, stop)
    if not bool(valid.all()):
        at = int(np.argmin(valid))
        raise source.error(int(start[at]), int(stop[at]), "unknown name", _NAMES)
    return index


def _indices(source: Source, start: Index, stop: Index) -> tuple[Index, NDArray[np.bool_]]:
    """As `_slots`, and whether the text is X_ or Y_ and an index without leading zeros."""
    view = words(source.text)
    head = view[start]
    prefix = head & np.uint64(0xFFFF)
    count = stop - start - 2
    value, valid = digits(view, stop, np.clip(count, 0, 8))
    valid &= ((prefix == _X) | (prefix == _Y)) & (count > 0) & (count <= 8)
    valid &= (count == 1) | ((head >> np.uint64(16)) & np.uint64(0xFF) != ord("0"))
    return np.where(prefix == _Y, _OUTPUT, 0) + value.astype(np.int64), valid


def _declarations(source: Source, stretches: list[_Stretch]) -> dict[str, int]:
    """How many X and Y there are.

    Raises InputError for a name declared twice and for gaps.
    """
    starts = np.concatenate([np.zeros(0, dtype=np.int64), *(s.tokens.start[s.declared] for s in stretches)])
    stops = np.concatenate([np.zeros(0, dtype=np.int64), *(s.tokens.stop[s.declared] for s in stretches)])
    slots = np.concatenate([np.zeros(0, dtype=np.int64), *(_slots(source, s.tokens, s.declared) for s in stretches)])
    counts = {}
    for letter, base in (("X", 0), ("Y", _OUTPUT)):
        mine = np.flatnonzero((slots >= base) & (slots < base + _OUTPUT))
        index = slots[mine] - base
        unique, first = np.unique(index, return_index=True)
        if len(unique) < len(index):
            again = np.ones(len(index), dtype=bool)
            again[first] = False
            at = mine[int(np.argmax(again))]
            raise source.error(int(starts[at]), int(stops[at]), "declared twice:", "remove one of the declarations")
        if len(unique) and int(unique[-1]) != len(unique) - 1:
            missing = int(np.argmax(unique != np.arange(len(unique))))
            at = mine[int(first[missing])]
            raise source.error(
                int(starts[at]),
                int(stops[at]),
                f"{letter}_{missing} is not declared, but",
                f"declare {letter}_0, {letter}_1, .. without gaps",
            )
        counts[letter] = len(unique)
    return counts


def _check_used(source: Source, stretch: _Stretch, counts: dict[str, int]) -> None:
    columns = stretch.columns
    names = np.concatenate((columns.left, columns.right[columns.right >= 0]))
    output = names >= _OUTPUT
    wrong = np.where(output, names - _OUTPUT >= counts["Y"], names >= counts["X"])
    if bool(wrong.any()):
        at = int(stretch.used[wrong].min())
        raise _undeclared(source, int(stretch.tokens.start[at]), int(stretch.tokens.stop[at]), counts)


def _undeclared(source: Source, start: int, stop: int, counts: dict[str, int]) -> InputError:
    return source.error(
        start,
        stop,
        "undeclared variable",
        f"the declarations give {counted(counts['X'], 'input')} X and {counted(counts['Y'], 'output')} Y",
    )


def _parts(source: Source, stretch: _Stretch, counts: dict[str, int]) -> Iterator[Piece | Formula]:
    c, inputs = stretch.columns, counts["X"]
    for column in (c.left, c.right):
        column[column >= _OUTPUT] += inputs - _OUTPUT

    def slots(start: Index, stop: Index) -> Index:
        index, valid = _indices(source, start, stop)
        output = index >= _OUTPUT
        declared = np.where(output, index - _OUTPUT < counts["Y"], index < inputs)
        return np.where(valid & declared, np.where(output, index + (inputs - _OUTPUT), index), -1)

    def unknown(start: int, stop: int) -> InputError:
        if _NAME.fullmatch(source.text, start, stop):
            return _undeclared(source, start, stop, counts)
        return source.error(start, stop, "unknown name", _NAMES)

    parser = Forms(source, stretch.tokens, stretch.stream, c, slots, unknown)
    for level in levels(stretch.stream):
        if level.bounds:
            yield from pieces(stretch.stream, c, level.low, level.high)
        elif (formula := parser.formula(level)) is not None:
            yield formula
