"""Text to tokens, as columns: kind, start, stop of every bracket and word, one whole top-level form after another.

Nothing here is recursive and no token becomes a Python object, so that 10^8 bytes and 10^6 nested brackets are
ordinary.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.query.decimals import words
from falsifier.query.source import Source
from falsifier.query.tree import RELATIONS
from falsifier.records import record

_CHUNK = 1 << 20  # bytes tokenised at a time: the columns of a chunk stay in the cache


class Token(IntEnum):
    """What a token is. The relations come first and in the order of `tree.RELATIONS`, so that a kind is a
    relation's code.
    """

    LE = 0
    LT = auto()
    GE = auto()
    GT = auto()
    EQ = auto()
    NE = auto()
    OPEN = auto()
    CLOSE = auto()
    NUMBER = auto()  # begins like one; whether it is one, its conversion says
    NAME = auto()
    AND = auto()
    OR = auto()
    PLUS = auto()
    MINUS = auto()
    TIMES = auto()
    ASSERT = auto()
    REAL = auto()
    DECLARE_CONST = auto()
    DECLARE_FUN = auto()
    # what `structure` puts in the place of several tokens
    ITEM = auto()  # a simple comparison, or an and/or over such
    BOUND = auto()  # an assert of an item
    DECLARED = auto()  # a declaration


RELATION_COUNT = len(RELATIONS)

# Classes of bytes: blank, part of a word, bracket, not allowed outside comments and strings.
_BLANK, _WORD, _BRACKET, _FOREIGN = range(4)


def _classes() -> bytes:
    table = bytearray([_FOREIGN]) * 256
    table[33:127] = bytes([_WORD]) * 94
    for blank in b" \t\r\n\f\v":
        table[blank] = _BLANK
    for bracket in b"()":
        table[bracket] = _BRACKET
    for quote in b'"|;':
        table[quote] = _FOREIGN  # what is left of them after blanking is unclosed
    return bytes(table)


def _first_kinds() -> NDArray[np.int8]:
    table = np.full(256, Token.NAME, dtype=np.int8)
    table[list(b"0123456789.+-")] = Token.NUMBER
    table[ord("(")] = Token.OPEN
    table[ord(")")] = Token.CLOSE
    return table


def _word(text: str) -> np.uint64:
    """The first eight bytes of a word as `words` reads them."""
    return np.uint64(int.from_bytes(text.encode()[:8], "little"))


_CLASS = _classes()
_KIND_OF_FIRST = _first_kinds()
_LOW = np.array([2 ** (8 * c) - 1 for c in range(9)], dtype=np.uint64)
_WORDS = {
    "<=": Token.LE,
    "<": Token.LT,
    ">=": Token.GE,
    ">": Token.GT,
    "=": Token.EQ,
    "==": Token.EQ,
    "!=": Token.NE,
    "and": Token.AND,
    "or": Token.OR,
    "+": Token.PLUS,
    "-": Token.MINUS,
    "*": Token.TIMES,
    "assert": Token.ASSERT,
    "Real": Token.REAL,
}
_HEADS = tuple((_word(text), kind) for text, kind in _WORDS.items())
_DECLARE, _CONST, _FUN = _word("declare-"), _word("const"), _word("fun")


@record
class Tokens:
    """Columns over tokens. `start`, `stop` are positions in `Source.text`."""

    kind: NDArray[np.int8]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    def part(self, a: int, b: int) -> Tokens:
        return Tokens(self.kind[a:b], self.start[a:b], self.stop[a:b])


def forms(source: Source, begin: int, end: int) -> Iterator[Tokens]:
    """The tokens of `source.text[begin:end]` in order, in parts that each hold whole top-level forms.

    Raises InputError for bytes that no token may hold and for brackets that do not match.
    """
    parts: list[Tokens] = []  # of a form that is still open
    depth, opened = 0, -1
    at = begin
    while at < end:
        cut = _cut(source.text, min(at + _CHUNK, end), end)
        tokens = _tokenise(source, at, cut)
        at = cut
        step = (tokens.kind == Token.OPEN).view(np.int8) - (tokens.kind == Token.CLOSE).view(np.int8)
        depths = np.cumsum(step, dtype=np.int64) + depth
        if len(depths) and int(depths.min()) < 0:
            stray = int(np.argmax(depths < 0))
            raise source.error(
                int(tokens.start[stray]),
                int(tokens.stop[stray]),
                "bracket closes nothing",
                "remove it, or open one before it",
            )
        whole = int(np.flatnonzero(depths == 0)[-1]) + 1 if len(depths) and bool((depths == 0).any()) else 0
        if whole:
            yield _joined([*parts, tokens.part(0, whole)])
            parts = []
        if whole < len(tokens):
            if not parts:
                opened = int(tokens.start[whole])
            parts.append(tokens.part(whole, len(tokens)))
            depth = int(depths[-1])
        else:
            depth = 0
    if parts:
        raise _unclosed(source, _joined(parts), opened)


def _cut(text: bytes, at: int, end: int) -> int:
    """The first place from `at` on where no word is cut."""
    while at < end and _CLASS[text[at]] == _WORD:
        at += 1
    return at


def _joined(parts: list[Tokens]) -> Tokens:
    if len(parts) == 1:
        return parts[0]
    return Tokens(
        np.concatenate([p.kind for p in parts]),
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.stop for p in parts]),
    )


def _tokenise(source: Source, begin: int, end: int) -> Tokens:
    classes = source.text[begin - 1 : end + 1].translate(_CLASS)
    if _FOREIGN in classes[1:-1]:
        found = begin - 1 + classes.index(_FOREIGN, 1)
        closing = {ord('"'): "quotation mark", ord("|"): "quoting bar"}.get(source.text[found])
        if closing:
            raise source.error(found, found + 1, f"{closing} without its partner", "close or remove it")
        width = next((w for w in (2, 3, 4) if _is_character(source.text[found : found + w])), 1)
        raise source.error(
            found, found + width, "character that VNN-LIB does not use", "remove it, or make the line a comment"
        )
    c = np.frombuffer(classes, dtype=np.uint8)
    here, before, after = c[1:-1], c[:-2] == _WORD, c[2:] == _WORD
    word, bracket = here == _WORD, here == _BRACKET
    start = np.flatnonzero(bracket | (word & ~before))
    stop = start + 1
    stop[word[start]] = np.flatnonzero(word & ~after) + 1
    start += begin
    stop += begin
    return Tokens(_kinds(source.text, start, stop), start, stop)


def _is_character(piece: bytes) -> bool:
    try:
        return len(piece.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _kinds(text: bytes, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int8]:
    view = words(text)
    length = stop - start
    head = view[start] & _LOW[np.minimum(length, 8)]
    kind: NDArray[np.int8] = _KIND_OF_FIRST[(head & np.uint64(255)).astype(np.intp)]
    for value, named in _HEADS:  # eight bytes hold each of these words whole
        kind[head == value] = named
    declare = np.flatnonzero(head == _DECLARE)
    tail = view[start[declare] + 8] & _LOW[np.minimum(length[declare] - 8, 8)]
    kind[declare[(tail == _CONST) & (length[declare] == 13)]] = Token.DECLARE_CONST
    kind[declare[(tail == _FUN) & (length[declare] == 11)]] = Token.DECLARE_FUN
    return kind


def _unclosed(source: Source, tokens: Tokens, opened: int) -> InputError:
    """A bracket is missing: most likely before the next command that stands inside an open form."""
    commands = np.isin(tokens.kind, (Token.ASSERT, Token.DECLARE_CONST, Token.DECLARE_FUN))
    for i in np.flatnonzero(commands).tolist():
        if i >= 2 and tokens.kind[i - 1] == Token.OPEN:
            line, _ = source.place(opened)
            return source.error(
                int(tokens.start[i]),
                int(tokens.stop[i]),
                f"the form that opens in line {line} is not closed before",
                f"a closing bracket is missing in line {line} or after it",
            )
    return source.error(
        opened, opened + 1, "bracket is never closed", "add the missing ')', or fetch the rest of the file"
    )
