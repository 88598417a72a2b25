"""Numbers and text as people read them."""

from __future__ import annotations

import pytest

from falsifier.campaign.report.words import compact, count, duration, number, printable, scaled, short


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1.5, "1.50"),
        (-0.012345, "\N{MINUS SIGN}0.0123"),
        (123.4, "123"),
        (99999, "99,999"),
        (2.5e-7, "2.50e\N{MINUS SIGN}7"),
        (-1e12, "\N{MINUS SIGN}1.00e12"),
        (None, "\N{EN DASH}"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_short_numbers_end_without_zeros() -> None:
    assert [short(x) for x in (1.0, 0.5, 100.0, 2.55, 0.0)] == ["1", "0.5", "100", "2.55", "0"]


def test_counts() -> None:
    assert (count(1234567), count(None)) == ("1,234,567", "\N{EN DASH}")
    assert (compact(99999), compact(2_420_000), scaled(1500)) == ("99,999", "2.42 M", "1.5 k")


def test_durations() -> None:
    assert [duration(x) for x in (0.5, 119, 120, 3600, 7_325, 90_061)] == [
        "0.500 s",
        "119 s",
        "2 min",
        "1 h",
        "2 h 2 min",
        "1 d 1 h",
    ]


def test_signs_that_cannot_be_seen_are_seen() -> None:
    assert printable("a\x00b\u202ec\ud800é") == "a\ufffdb\ufffdc\ufffdé"
