"""The forms of a 1.0 text that the columns do not take: nested connectives and arithmetic to nodes, on an explicit
stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.query.columns import Columns, connective
from falsifier.query.decimals import numbers
from falsifier.query.source import Source
from falsifier.query.structure import Index, Level, Stream
from falsifier.query.tokens import RELATION_COUNT, Token, Tokens
from falsifier.query.tree import (
    RELATIONS,
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
    Term,
)

Part: TypeAlias = Term | Formula | int  # an int is an item of the stream

_KNOWN = "use and, or, <=, <, >=, >, =, +, -, *"
_TERMS = (Constant, Reference, Negate, Sum, Difference, Product)
_TERM_TYPES = frozenset(_TERMS)
_HARMLESS = (b"set-logic", b"set-info", b"set-option", b"check-sat", b"get-model", b"get-value", b"exit")
_COMMANDS = frozenset((Token.ASSERT, Token.DECLARE_CONST, Token.DECLARE_FUN))
# plain numbers: the loop below is the only one in this package that runs once per token
_OPEN, _CLOSE, _NUMBER, _NAME, _ITEM = map(int, (Token.OPEN, Token.CLOSE, Token.NUMBER, Token.NAME, Token.ITEM))
_AND, _OR, _PLUS, _TIMES, _NE = map(int, (Token.AND, Token.OR, Token.PLUS, Token.TIMES, Token.NE))
_OPERATORS = frozenset(map(int, (*range(RELATION_COUNT), Token.AND, Token.OR, Token.PLUS, Token.MINUS, Token.TIMES)))


_NUMBER_FIRST, _NAME_FIRST = 1, 2


def _scaled(kind: NDArray[np.int8], slots: Index) -> NDArray[np.int8]:
    """Where a number times a name begins, which is what long texts are full of: _NUMBER_FIRST, _NAME_FIRST; else 0."""
    found = np.zeros(len(kind), dtype=np.int8)
    n = len(kind) - 4
    if n > 0:
        fits = (kind[:n] == _OPEN) & (kind[1 : n + 1] == _TIMES) & (kind[4:] == _CLOSE)
        fits &= (slots[2 : n + 2] >= 0) & (slots[3 : n + 3] >= 0)
        second, third = kind[2 : n + 2], kind[3 : n + 3]
        found[:n][fits & (second == _NUMBER) & (third == _NAME)] = _NUMBER_FIRST
        found[:n][fits & (second == _NAME) & (third == _NUMBER)] = _NAME_FIRST
    return found


class Forms:
    """Parser of the top-level forms of one stretch of text.

    `slots` gives the slots of some names (columns of start and stop), negative where a name has none; `unknown` the
    error for such a name.
    """

    def __init__(
        self,
        source: Source,
        tokens: Tokens,
        stream: Stream,
        columns: Columns,
        slots: Callable[[Index, Index], Index],
        unknown: Callable[[int, int], InputError],
    ) -> None:
        self._source, self._tokens, self._stream, self._columns = source, tokens, stream, columns
        self._unknown = unknown
        self._slots = np.zeros(len(stream.kind), dtype=np.int64)
        for kind in (Token.NAME, Token.NUMBER):
            at = np.flatnonzero(stream.kind == kind)
            start, stop = tokens.start[stream.token[at]], tokens.stop[stream.token[at]]
            if kind == Token.NAME:
                self._slots[at] = slots(start, stop)
            else:
                self._slots[at] = -np.isnan(numbers(source.text, start, stop).value).astype(np.int64)
        self._scaled = _scaled(stream.kind, self._slots)

    def formula(self, level: Level) -> Formula | None:
        """What a form of the stream asserts, None for a command without meaning here."""
        kinds = self._stream.kind[level.low : level.high].tolist()
        if kinds[0] == _ITEM:
            raise self._error(level.low, "a formula outside of an assert", "write (assert ..) around it")
        if kinds[0] != _OPEN:
            raise self._error(level.low, "text outside of all brackets", "remove it, or make the line a comment")
        if kinds[1] != Token.ASSERT:
            self._command(level)
            return None
        parts = self._parts(kinds, level)
        if len(parts) != 1:
            raise self._error(level.low + 1, f"{len(parts)} arguments for", "it takes one formula")
        return self._formulas(_AND, parts, level.low + 1)[0]

    def _parts(self, kinds: list[int], level: Level) -> list[Part]:
        """The parts of the assert that `kinds` spells."""
        base, item, text = level.low, level.item, self._source.text
        slots, scaled = self._slots[base : level.high].tolist(), self._scaled[base : level.high].tolist()
        token = self._stream.token[base : level.high]
        starts, stops = self._tokens.start[token].tolist(), self._tokens.stop[token].tolist()
        stack: list[tuple[int, int, list[Part]]] = []
        operator, opened = int(Token.ASSERT), base + 1
        parts: list[Part] = []
        i, end = 2, len(kinds) - 1
        while i < end:
            kind = kinds[i]
            if kind == _OPEN:
                if scaled[i]:
                    number, name = (i + 2, i + 3) if scaled[i] == _NUMBER_FIRST else (i + 3, i + 2)
                    factors = (Constant(text[starts[number] : stops[number]].decode()), Reference(slots[name]))
                    parts.append(Product(factors if number < name else factors[::-1]))
                    i += 5
                    continue
                stack.append((operator, opened, parts))
                i += 1
                operator = kinds[i]
                if operator not in _OPERATORS or operator == _NE:
                    raise self._not_an_operator(operator, base + i, level)
                opened, parts = base + i, []
            elif kind == _CLOSE:
                part = self._closed(operator, parts, opened)
                operator, opened, parts = stack.pop()
                parts.append(part)
            elif kind == _ITEM:
                parts.append(item)
                item += 1
            elif kind == _NUMBER:
                if slots[i] < 0:
                    raise self._error(base + i, "not a number", "write it like -1.5 or 2e-3")
                parts.append(Constant(text[starts[i] : stops[i]].decode()))
            elif kind == _NAME:
                if slots[i] < 0:
                    raise self._unknown(starts[i], stops[i])
                parts.append(Reference(slots[i]))
            else:
                raise self._misplaced(kind, base + i, level)
            i += 1
        return parts

    def _closed(self, operator: int, parts: list[Part], opened: int) -> Part:
        if operator in (_AND, _OR):
            if not parts:
                raise self._error(opened, "0 arguments for", "it takes at least one formula")
            if len(parts) == 1 and not isinstance(parts[0], _TERMS):
                return parts[0]
            formulas = tuple(self._formulas(operator, parts, opened))
            if len(formulas) == 1:
                return formulas[0]
            return And(formulas) if operator == _AND else Or(formulas)
        terms = self._terms(parts, opened)
        if operator < RELATION_COUNT:
            if len(terms) != 2:
                raise self._error(opened, f"{len(terms)} arguments for", "it takes two numbers")
            return Compare(RELATIONS[operator], terms[0], terms[1])
        if not terms:
            raise self._error(opened, "0 arguments for", "it takes at least one number")
        if operator == _PLUS:
            return Sum(terms)
        if operator == _TIMES:
            return Product(terms)
        return Negate(terms[0]) if len(terms) == 1 else Difference(terms[0], terms[1:])

    def _formulas(self, operator: int, parts: list[Part], opened: int) -> list[Formula]:
        if not _TERM_TYPES.isdisjoint(map(type, parts)):
            i = next(i for i, part in enumerate(parts) if isinstance(part, _TERMS))
            remedy = "compare it, as in (<= X_0 1)"
            raise self._error(self._place(opened, i), "a number where a comparison is expected", remedy)
        formulas = cast("list[Formula | int]", parts)
        return connective(formulas, self._stream, self._columns, self._source.text, conjoined=operator == _AND)

    def _terms(self, parts: list[Part], opened: int) -> tuple[Term, ...]:
        if not _TERM_TYPES.issuperset(map(type, parts)):
            i = next(i for i, part in enumerate(parts) if not isinstance(part, _TERMS))
            remedy = "join comparisons by and / or"
            raise self._error(self._place(opened, i), "a comparison where a number is expected", remedy)
        return cast("tuple[Term, ...]", tuple(parts))

    def _place(self, opened: int, part: int) -> int:
        """The stream entry at which a part (from 0) of the bracket with its operator at `opened` begins."""
        depth = 0
        for i in range(opened + 1, len(self._stream.kind)):
            kind = self._stream.kind[i]
            if depth == 0:
                if part == 0:
                    return i
                part -= 1
            depth += int(kind == _OPEN) - int(kind == _CLOSE)
        raise IndexError(part)

    def _command(self, level: Level) -> None:
        at = level.low + 1
        kind = self._stream.kind[at]
        if kind == _CLOSE:
            raise self._error(at - 1, "nothing between brackets", "remove them", stop=at)
        if kind in (Token.DECLARE_CONST, Token.DECLARE_FUN):
            raise self._error(
                at, "declaration that is not understood", "write (declare-const X_0 Real) or (declare-fun X_0 () Real)"
            )
        word = self._bytes(at)
        if word in _HARMLESS:
            return
        if word == b"vnnlib-version":
            if self._bytes(at + 1).startswith(b"<1."):
                return
            raise self._error(at + 1, "a text with declare-const is of version 1, not", "write <1.0> or leave it away")
        raise self._error(at, "unknown command", "a query is made of declare-const and assert")

    def _not_an_operator(self, kind: int, at: int, level: Level) -> InputError:
        if kind in _COMMANDS:
            return self._nested(at, level)
        if kind == _CLOSE:
            return self._error(at - 1, "nothing between brackets", f"remove them, or {_KNOWN}", stop=at)
        if kind in (Token.OPEN, Token.ITEM, Token.BOUND, Token.DECLARED):
            return self._error(at, "bracket where an operator is expected", _KNOWN)
        if kind == _NE:
            return self._error(at, "VNN-LIB 1.0 has no comparison", "write an or of < and >, or a 2.0 query")
        return self._error(at, "unknown operator", _KNOWN)

    def _misplaced(self, kind: int, at: int, level: Level) -> InputError:
        if kind in (Token.BOUND, Token.DECLARED):
            return self._nested(at, level)
        return self._error(at, "operator without a bracket before it", f"write ({self._bytes(at).decode()} ..)")

    def _nested(self, at: int, level: Level) -> InputError:
        start, stop = self._tokens.start, self._tokens.stop
        line, _ = self._source.place(int(start[self._stream.token[level.low]]))
        token = int(self._stream.token[at]) + (self._stream.kind[at] in (Token.BOUND, Token.DECLARED))
        remedy = f"a closing bracket is missing in line {line} or after it"
        return self._source.error(int(start[token]), int(stop[token]), "command inside of another form", remedy)

    def _bytes(self, at: int) -> bytes:
        token = self._stream.token[at]
        return self._source.text[int(self._tokens.start[token]) : int(self._tokens.stop[token])]

    def _error(self, at: int, what: str, remedy: str, stop: int | None = None) -> InputError:
        first, last = self._stream.token[at], self._stream.token[at if stop is None else stop]
        return self._source.error(int(self._tokens.start[first]), int(self._tokens.stop[last]), what, remedy)
