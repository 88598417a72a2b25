"""The text of a query as bytes, with the places in it that messages name. Comments and quoted strings are blanked
once, here.

`text` begins and ends with `PAD` blanks, so that eight-byte words may be read around every token; positions
everywhere in this package are positions in `text`.
"""

from __future__ import annotations

import re

from falsifier.errors import InputError

PAD = 32
_SHOWN = 40  # characters of a token that a message repeats
_SKIPPED = re.compile(rb';[^\r\n]*|"[^"]*"|\|[^|]*\|')
_BOM = b"\xef\xbb\xbf"


class Source:
    """A query's text ready for scanning: `text` blanked and padded, `raw` as it came.

    Raises InputError for a text that is empty, holds NUL bytes or is not UTF-8.
    """

    def __init__(self, text: bytes, origin: str) -> None:
        self.origin = origin
        if not text.isascii():
            text = self._decoded(text)
        if not text.strip():
            raise InputError(f"{origin}: the file is empty; expected a VNN-LIB query")
        pad = b" " * PAD
        self.raw = text
        nul = text.find(b"\0")
        self.text: bytes = b"".join((pad, text, pad))
        if nul >= 0:
            raise self.error(nul + PAD, nul + PAD + 1, "NUL byte", "the file is not text: is it UTF-16, or an archive?")
        self.end = len(text) + PAD
        if b";" in text or b'"' in text or b"|" in text:
            self.text = _SKIPPED.sub(_blank, self.text)

    def _decoded(self, text: bytes) -> bytes:
        if text.startswith(_BOM):
            text = b"   " + text[len(_BOM) :]
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as e:
            line = text.count(b"\n", 0, e.start) + 1
            column = e.start - (text.rfind(b"\n", 0, e.start) + 1) + 1
            raise InputError(
                f"{self.origin}:{line}:{column}: byte 0x{text[e.start]:02x} is not UTF-8; save the query as UTF-8 text"
            ) from None
        return text

    def place(self, position: int) -> tuple[int, int]:
        """Line and column (both from 1, columns in characters) of a position."""
        start = max(self.text.rfind(b"\n", PAD, position) + 1, PAD)
        line = self.text.count(b"\n", PAD, position) + 1
        return line, len(self.text[start:position].decode("utf-8", "replace")) + 1

    def token(self, start: int, stop: int) -> str:
        """What stands there, fit for a message."""
        return shown(self.text[start : min(stop, start + 4 * _SHOWN)].decode("utf-8", "replace"))

    def error(self, start: int, stop: int, what: str, remedy: str) -> InputError:
        """`file:line:column: what 'token'; remedy` as one line."""
        line, column = self.place(start)
        found = f" '{self.token(start, stop)}'" if stop > start else ""
        return InputError(f"{self.origin}:{line}:{column}: {what}{found}; {remedy}")


def shown(token: str) -> str:
    """A token, fit for a message: printable, and not long."""
    kept = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in token[: _SHOWN + 1])
    return kept if len(kept) <= _SHOWN else kept[:_SHOWN] + ".."


def _blank(skipped: re.Match[bytes]) -> bytes:
    """As many blanks for a comment, as many underscores for a quoted string: positions and line ends stay."""
    found = skipped.group()
    if found.startswith(b";"):
        return b" " * len(found)
    return b"".join(b"\n" if c == 10 else b"\r" if c == 13 else b"_" for c in found)
