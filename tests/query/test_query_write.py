"""Text and tree: what is written reads back as the same query, constants to the letter; both versions say the same."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from query_text import TREES, disjuncts, queries

from falsifier.query import parse
from falsifier.query.tree import Query
from falsifier.query.write import write
from falsifier.records import replaced

BLANKS = st.sampled_from([" ", "\n", "\t", "\r\n", " ; a (comment\n", "  ", "\f", "\v "])


@TREES
@given(queries((1, 0)))
def test_1_reads_back(query: Query) -> None:
    text = write(query)
    again = parse(text)
    assert disjuncts(again) == disjuncts(query)
    assert disjuncts(parse(write(again))) == disjuncts(query)


@TREES
@given(queries((2, 0)))
def test_2_reads_back(query: Query) -> None:
    text = write(query)
    again = parse(text)
    assert again.networks == query.networks
    assert disjuncts(again) == disjuncts(query)
    assert disjuncts(parse(write(again))) == disjuncts(query)


@TREES
@given(queries((2, 0)), st.data())
def test_both_versions_say_the_same(query: Query, data: st.DataObject) -> None:
    text = write(query)
    if "!=" in text:
        query = parse(text.replace("!=", "<"))
    as_1 = replaced(query, version=(1, 0))
    assert disjuncts(parse(write(as_1))) == disjuncts(query)


@TREES
@given(queries((1, 0)), st.data())
def test_blanks_and_comments_change_nothing(query: Query, data: st.DataObject) -> None:
    def blanks(found: re.Match[str]) -> str:
        before = data.draw(BLANKS) if found[0] == " " or data.draw(st.integers(0, 9)) == 0 else ""
        return before + (found[0] if found[0] != " " else "")

    text = re.sub(r"[ ()]", blanks, write(query)).rstrip("\n")
    assert disjuncts(parse(text)) == disjuncts(query)


def test_declarations_of_2() -> None:
    text = (
        "(vnnlib-version <2.0>)\n"
        "(declare-network f\n"
        "    (declare-input X float32 [1,2])\n"
        '    (declare-hidden H float32 [3] "block/out:0")\n'
        "    (declare-output Y real [])\n"
        ")\n"
        "(declare-network g (isomorphic-to f)\n"
        "    (declare-input V float32 [1,2])\n"
        '    (declare-hidden W float32 [3] "block/out:0")\n'
        "    (declare-output Z real [])\n"
        ")\n"
        "(assert (<= X[0,1] 0.50))\n"
        "(assert (or (and (<= H[2] -1.0) (>= Y 2.00)) (!= Z 3.0)))\n"
        "(assert (== X[0,0] (- V[0,1] 1.5)))\n"
    )
    assert write(parse(text)) == text
    assert write(parse(text.replace("isomorphic-to", "equal-to"))) == text.replace("isomorphic-to", "equal-to")


def test_text_of_1() -> None:
    text = (
        "(declare-const X_0 Real)\n(declare-const Y_0 Real)\n"
        "(assert (<= X_0 +1.50e0))\n(assert (or (and (<= X_0 .5) (>= Y_0 1.)) (<= Y_0 -3)))\n"
        "(assert (<= (* 2 X_0) (+ Y_0 (- 1))))\n"
    )
    assert write(parse(text)) == text
