"""Opening files: plain and packed, recognised by their content, refused with one line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_text import TREES, disjuncts

from falsifier.errors import InputError
from falsifier.query import parse, read
from falsifier.query.read import version

ONE = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1.0))"
TWO = (
    "(vnnlib-version <2.0>)(declare-network N (declare-input X real [1]) (declare-output Y real [1]))"
    "(assert (<= X[0] 1.0))"
)


@pytest.mark.parametrize("text", [ONE, TWO])
@pytest.mark.parametrize("name", ["prop.vnnlib", "prop.vnnlib.gz", "p q/prop \N{LATIN SMALL LETTER E WITH ACUTE}.gz"])
@pytest.mark.parametrize("packed", [False, True])
def test_content_decides_not_the_name(tmp_path: Path, text: str, name: str, packed: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert disjuncts(read(path)) == disjuncts(parse(text))
    assert read(str(path)).origin == str(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ONE, 1),
        (TWO, 2),
        ("; (declare-network\n" + ONE, 1),
        ("; (declare-const X_0 Real)\n" + TWO, 2),
        ('(set-info :source "(declare-network")' + ONE, 1),
        ("( declare-fun X_0 () Real)", 1),
        ("(\tvnnlib-version  < 2.1 >)", 2),
        ("(vnnlib-version <1.0>)" + ONE, 1),
    ],
)
def test_version_by_the_text(text: str, found: int) -> None:
    assert version(text.encode()) == found


def test_version_1_may_say_so() -> None:
    assert disjuncts(parse("(vnnlib-version <1.0>)" + ONE)) == disjuncts(parse(ONE))


def _refused(path: Path, message: str, limit: int = 1000) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(path, limit=limit)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_truncated_gzip(tmp_path: Path) -> None:
    path = tmp_path / "prop.vnnlib.gz"
    path.write_bytes(gzip.compress(ONE.encode())[:-9])
    _refused(path, "damaged gzip file")


@pytest.mark.parametrize("damage", [b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage that is long enough to be a header"])
def test_damaged_gzip(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "prop.vnnlib"
    path.write_bytes(damage)
    _refused(path, "damaged gzip file")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    _refused(tmp_path / "absent.vnnlib", "cannot be read: No such file")
    _refused(tmp_path, "cannot be read: it is a folder")


@pytest.mark.parametrize("packed", [False, True])
def test_the_limit_counts_unpacked_bytes(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "prop.vnnlib"
    text = ONE.encode() + b"\n" * (2000 - len(ONE))
    path.write_bytes(gzip.compress(text) if packed else text)
    _refused(path, "more than 1999 bytes when unpacked; raise the limit", limit=1999)
    assert read(path, limit=2000).slots == 2


PIECES = [
    "(",
    ")",
    "and",
    "or",
    "assert",
    "<=",
    "X_0",
    "X[0]",
    "1.0",
    "-",
    " ",
    "\n",
    ";",
    '"',
    "|",
    "()",
    "\0",
    "1e999",
    "!=",
]


@TREES
@given(
    st.sampled_from([ONE, TWO]), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9), st.sampled_from(PIECES)))
)
def test_whatever_is_done_to_a_text_it_is_read_or_refused_in_one_line(
    text: str, changes: list[tuple[int, int, str]]
) -> None:
    for place, removed, inserted in changes:
        text = text[:place] + inserted + text[place + removed :]
    try:
        parse(text, "prop")
    except InputError as e:
        assert re.fullmatch("prop[^\n]+", str(e))  # noqa: PT017


def test_a_text_that_cannot_be_encoded() -> None:
    with pytest.raises(InputError, match="lone surrogates"):
        parse(ONE + "; \ud800")
