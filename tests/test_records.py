"""Records: what they share with frozen dataclasses."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from falsifier.records import record, replaced, values


@record
class Pair:
    first: int
    second: str = "b"


@record
class Other:
    first: int
    second: str = "b"


@record
class Slotted:
    __slots__ = ("one",)

    one: int


def test_fields_defaults_and_text() -> None:
    assert values(Pair(1)) == (1, "b")
    assert values(Pair(second="c", first=2)) == (2, "c")
    assert values(Slotted(3)) == (3,)
    assert repr(Pair(1)) == "Pair(first=1, second='b')"
    with pytest.raises(TypeError):
        Pair()  # type: ignore[call-arg]


def test_equality_asks_for_the_class() -> None:
    assert Pair(1) == Pair(1, "b")
    assert Pair(1) != Pair(2)
    other: object = Other(1)
    assert Pair(1) != other
    assert len({Pair(1), Pair(1), Pair(2)}) == 2


def test_copies_with_changes() -> None:
    pair = Pair(1)
    assert replaced(pair, first=5) == Pair(5)
    assert pair == Pair(1)
    with pytest.raises(TypeError):
        replaced(pair, third=1)


def test_functions_of_dataclasses_take_records() -> None:
    assert replace(Pair(1), second="c") == Pair(1, "c")
    assert replace(Slotted(1), one=2) == Slotted(2)
    assert [field.name for field in fields(Pair)] == ["first", "second"]
    assert asdict(Pair(1)) == {"first": 1, "second": "b"}


def test_slots_are_kept_and_patterns_match() -> None:
    assert not hasattr(Slotted(1), "__dict__")
    match Pair(4, "x"):
        case Pair(first, second):
            assert (first, second) == (4, "x")
