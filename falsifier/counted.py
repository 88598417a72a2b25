"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 witness`, `2 witnesses`, `1 row`, `0 rows`."""
    if number == 1:
        return f"{number} {what}"
    return f"{number} {what}{'es' if what.endswith(('s', 'x')) else 's'}"
