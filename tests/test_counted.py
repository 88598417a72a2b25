"""Numbers of things in messages."""

from __future__ import annotations

import pytest

from falsifier.counted import counted


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [(1, "witness", "1 witness"), (2, "witness", "2 witnesses"), (0, "row", "0 rows"), (1, "row", "1 row")],
)
def test_one_and_several(number: int, what: str, said: str) -> None:
    assert counted(number, what) == said
