"""VNN-LIB 1.0: odd spellings read as what they say, structure kept, and one line for whatever is malformed."""

from __future__ import annotations

import numpy as np
import pytest
from query_text import bound, disjuncts

from falsifier.errors import InputError
from falsifier.query import parse
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import And, Compare, Constant, Difference, Or, Product, Query, Reference, Relation, Table

DECLARED = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)\n"

HARD_TO_READ = (
    "; sample spec\r\n"
    "(declare-const X_0 Real)\r\n"
    "(declare-const X_1 Real)\t; second\r\n"
    "(declare-const Y_0 Real)\r\n"
    "(assert (<= -1e-17 X_0))\r\n"
    "(assert(<= X_0 +1.0E0))\r\n"
    "( assert ( >= X_1 -.5 ) )\r\n"
    "(assert (<= X_1 1.))\r\n"
    "(assert (or(and(>= Y_0 1.4)(>= 2 Y_0))(>= -3 Y_0)))"
)


def _read(asserts: str) -> Query:
    return parse(DECLARED + asserts, "q.vnnlib")


def _table(formula: object) -> Table:
    assert isinstance(formula, Table)
    return formula


def test_hard_to_read_text_says_what_plain_text_says() -> None:
    plain = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "Y_0")) + (
        "(assert (>= X_0 -1e-17))\n(assert (<= X_0 +1.0E0))\n(assert (>= X_1 -.5))\n(assert (<= X_1 1.))\n"
        "(assert (or (and (>= Y_0 1.4) (<= Y_0 2)) (and (<= Y_0 -3))))\n"
    )
    query = parse(HARD_TO_READ)
    assert disjuncts(query) == disjuncts(parse(plain))
    box, union = map(_table, query.assertions)
    assert [box.constant(i) for i in range(4)] == ["-1e-17", "+1.0E0", "-.5", "1."]
    assert box.value.tolist() == [-1e-17, 1.0, -0.5, 1.0]
    assert union.clauses.tolist() == [0, 2, 3]
    assert holds(query, [np.array([0.8, 0.7]), np.array([1.5])], Arithmetic.EXACT)


@pytest.mark.parametrize("place", [i for i, c in enumerate(HARD_TO_READ) if c in "()"])
def test_a_bracket_less_is_an_error_that_names_the_line(place: int) -> None:
    """Negative twins: any one bracket missing."""
    with pytest.raises(InputError, match=r"^prop\.vnnlib:\d+:\d+: [^\n]+; [^\n]+$"):
        parse(HARD_TO_READ[:place] + HARD_TO_READ[place + 1 :], "prop.vnnlib")


def test_the_line_with_the_missing_bracket_is_named() -> None:
    text = HARD_TO_READ.replace("(<= X_0 +1.0E0))", "(<= X_0 +1.0E0)")
    with pytest.raises(InputError, match=r"^q:7:3: .*'assert'; a closing bracket is missing in line 6"):
        parse(text, "q")


def test_a_conjunct_after_or_before_the_or_is_conjoined() -> None:
    union, plain = "(assert (or (and (>= Y_0 0.9)) (and (<= Y_0 0.1))))", "(assert (>= Y_1 2.5))"
    for asserts in (union + plain, plain + union):
        query = _read(asserts)
        assert disjuncts(query) == {
            frozenset((bound(">=", 2, "0.9"), bound(">=", 3, "2.5"))),
            frozenset((bound("<=", 2, "0.1"), bound(">=", 3, "2.5"))),
        }
        inputs = np.zeros(2)
        assert not holds(query, [inputs, np.array([1.0, 2.4])], Arithmetic.EXACT)
        assert holds(query, [inputs, np.array([1.0, 2.5])], Arithmetic.EXACT)


def test_boxes_stay_with_their_clause() -> None:
    query = _read("(assert (or (and (>= X_0 1)(<= X_0 2)(<= Y_0 -100)) (and (>= X_1 3)(<= X_1 4)(>= Y_0 9.5))))")
    table = _table(query.assertions[0])
    assert table.clauses.tolist() == [0, 3, 6]
    assert table.left.tolist() == [0, 0, 2, 1, 1, 2]
    assert holds(query, [np.array([9.5, 3.5]), np.array([9.5, 0.0])], Arithmetic.EXACT)


@pytest.mark.parametrize("order", [("10", "1"), ("1", "10")])
def test_bounds_given_twice_are_both_kept(order: tuple[str, str]) -> None:
    query = _read("".join(f"(assert (>= X_0 0))(assert (<= X_0 {upper}))" for upper in order))
    assert len(query.assertions) == 1
    assert holds(query, [np.array([1.0, 0.0]), np.zeros(2)], Arithmetic.EXACT)
    assert not holds(query, [np.array([1.5, 0.0]), np.zeros(2)], Arithmetic.EXACT)


def test_plain_bounds_merge_and_inputs_stay_apart_from_outputs() -> None:
    query = _read(
        "(assert (<= X_0 1))(assert (<= Y_0 1))(assert (or (<= X_1 0) (>= X_1 1)))(assert (and (>= X_0 0) (<= X_1 1)))"
        "(assert (<= Y_1 X_0))"
    )
    assert [_table(a).left.tolist() for a in query.assertions] == [[0, 0, 1], [2, 3], [1, 1]]
    assert [_table(a).clauses.tolist() for a in query.assertions] == [[0, 3], [0, 2], [0, 1, 2]]
    assert _table(query.assertions[1]).right.tolist() == [-1, 0]


def test_declarations_may_stand_between_and_after() -> None:
    query = parse(
        "(declare-const Y_0 Real)(declare-fun X_1 () Real)(assert (<= X_1 1))(declare-fun X_0 () Real)"
        "(assert (<= Y_0 2))"
    )
    assert disjuncts(query) == {frozenset((bound("<=", 1, "1"), bound("<=", 2, "2")))}
    assert query.slots == 3


def test_arithmetic_becomes_nodes() -> None:
    query = _read("(assert (<= X_0 (- (* 1.5 X_1) X_0 2e0)))")
    assert query.assertions == (
        Compare(
            Relation.LE,
            Reference(0),
            Difference(Product((Constant("1.5"), Reference(1))), (Reference(0), Constant("2e0"))),
        ),
    )


def test_an_or_over_boxes_and_another_over_outputs() -> None:
    query = _read(
        "(assert (or (and (>= X_0 0) (<= X_0 1)) (and (>= X_0 2) (<= X_0 3))))(assert (or (<= Y_0 0) (>= Y_0 1)))"
    )
    assert len(disjuncts(query)) == 4
    assert [len(_table(a).clauses) for a in query.assertions] == [3, 3]


def test_an_or_of_outputs_inside_each_clause_is_multiplied_out() -> None:
    query = _read(
        "(assert (or (and (>= X_0 0) (or (<= Y_0 1) (>= Y_0 2)) (<= X_0 1)) (and (>= X_0 2) (<= X_0 3) (<= Y_1 0))))"
    )
    table = _table(query.assertions[0])
    assert table.clauses.tolist() == [0, 3, 6, 9]
    assert table.left.tolist() == [0, 2, 0, 0, 2, 0, 0, 0, 3]


def test_a_large_box_beside_an_or_is_not_multiplied_out() -> None:
    box = " ".join(f"(<= X_0 {i})" for i in range(100))
    query = _read(f"(assert (or (and {box} (or (<= Y_0 1) (>= Y_0 2))) (<= X_1 0)))")
    assert sum(len(clause) for clause in disjuncts(query)) == 2 * 101 + 1
    assert isinstance(query.assertions[0], Or)
    assert isinstance(query.assertions[0].parts[0], And)
    assert [len(_table(part)) for part in query.assertions[0].parts[0].parts] == [100, 2]


@pytest.mark.parametrize("spelling", ["=", "=="])
def test_equality(spelling: str) -> None:
    assert _table(_read(f"(assert ({spelling} X_0 0.5))").assertions[0]).relation.tolist() == [Relation.EQ.code]


def test_commands_without_meaning_and_strings_are_skipped() -> None:
    query = _read(
        '(set-logic QF_LRA)(set-info :source "a (; b")(set-info :note |x)\n(|)(assert (<= X_0 1))(check-sat)(exit)'
    )
    assert disjuncts(query) == {frozenset((bound("<=", 0, "1"),))}


def test_comments_may_hold_anything() -> None:
    query = _read('; (assert (<= X_0 -1)) é " | ((\n(assert ; here\n (<= X_0 ;)\n 1))')
    assert disjuncts(query) == {frozenset((bound("<=", 0, "1"),))}


def test_byte_order_mark() -> None:
    assert parse(b"\xef\xbb\xbf" + DECLARED.encode()).slots == 4


def test_nesting_a_million_deep() -> None:
    for text in ("(" * 10**6, "(and " * 10**6, "(" * 10**6 + ")" * 10**6):
        with pytest.raises(InputError, match="bracket"):
            _read("(assert " + text)


def test_deep_nesting_is_read() -> None:
    depth = 10**5
    assert disjuncts(_read("(assert " + "(and " * depth + "(<= X_0 1)" + ")" * depth + ")")) == {
        frozenset((bound("<=", 0, "1"),))
    }


def test_deep_alternation() -> None:
    depth = 20_000
    text = "(and (<= X_0 (+ X_1 1)) (or (<= X_1 1) " * depth + "(<= X_0 5)" + "))" * depth
    query = _read(f"(assert {text})")
    assert holds(query, [np.array([1.0, 1.0]), np.zeros(2)], Arithmetic.EXACT)
    assert not holds(query, [np.array([3.0, 1.0]), np.zeros(2)], Arithmetic.EXACT)


def test_forms_longer_than_a_chunk() -> None:
    clauses = "".join(f"(and (>= X_0 {i}.25)\n(<= X_0 {i}.5))" for i in range(60_000))
    table = _table(_read(f"(assert (or {clauses}))(assert (<= X_1 7))").assertions[0])
    assert len(clauses) > 2 << 20
    assert table.clauses.tolist() == list(range(0, 120_001, 2))
    np.testing.assert_array_equal(table.value.reshape(-1, 2), np.arange(60_000)[:, None] + [0.25, 0.5])


MALFORMED = {
    "": r"the file is empty",
    " \n\t": r"the file is empty",
    "a letter": r"not a VNN-LIB query: no declare-const",
    "(assert (<= X_0 1))": r"not a VNN-LIB query",
    DECLARED
    + "(assert (<= X_9 1))": r":2:13: undeclared variable 'X_9'; the declarations give 2 inputs X and 2 outputs Y",
    DECLARED + "(assert (<= (+ X_9 1) 1))": r":2:16: undeclared variable 'X_9'",
    DECLARED + "(assert (<= Z_0 1))": r":2:13: unknown name 'Z_0'; inputs are called X_0",
    DECLARED + "(assert (<= X_01 1))": r":2:13: unknown name 'X_01'",
    DECLARED + "(assert (<= X_1000000000 1))": r":2:13: unknown name 'X_1000000000'",
    DECLARED + "(declare-const X_1 Real)": r":2:16: declared twice: 'X_1'",
    DECLARED + "(declare-const X_4 Real)": r":2:16: X_2 is not declared, but 'X_4'",
    DECLARED + "(declare-const A_0 Real)": r":2:16: unknown name 'A_0'",
    DECLARED + "(declare-const X_2 Int)": r":2:20: X_2 is declared as 'Int'; VNN-LIB 1.0 knows Real alone",
    DECLARED + "(assert (<= X_0 1))(declare-fun X_2 () Bool)": r"X_2 is declared as 'Bool'; .* Real alone",
    DECLARED + "(declare-const X_2 (Real))": r":2:2: declaration that is not understood 'declare-const'",
    DECLARED + "(assert (=> X_0 1))": r":2:10: unknown operator '=>'; use and, or",
    DECLARED + "(assert (not (<= X_0 1)))": r":2:10: unknown operator 'not'",
    DECLARED + "(assert (!= X_0 1))": r":2:10: VNN-LIB 1.0 has no comparison '!='",
    DECLARED + "(assert (or (!= (+ X_0) 1)))": r":2:14: VNN-LIB 1.0 has no comparison '!='",
    DECLARED + "(push 1)": r":2:2: unknown command 'push'",
    DECLARED + "(vnnlib-version <2.0>)": r":2:17: a text with declare-const is of version 1, not '<2.0>'",
    DECLARED + "()": r":2:1: nothing between brackets '\(\)'",
    DECLARED + "assert": r":2:1: text outside of all brackets 'assert'",
    DECLARED + "(<= X_0 1)": r":2:1: a formula outside of an assert '\('; write \(assert ..\) around it",
    DECLARED + "(assert (<= X_0 1)": r":2:1: bracket is never closed '\('",
    DECLARED
    + "(assert (<= X_0 1)\n(assert (<= X_1 1))": r":3:2: the form that opens in line 2 is not closed before 'assert'",
    DECLARED + "(assert (<= X_0 1)\n(assert (<= X_1 1)))": r":3:2: command inside of another form 'assert'",
    DECLARED + "(assert (<= X_0 1)))": r":2:20: bracket closes nothing '\)'",
    DECLARED + "(assert)": r":2:2: 0 arguments for 'assert'; it takes one formula",
    DECLARED + "(assert (<= X_0 1) (<= X_1 1))": r":2:2: 2 arguments for 'assert'",
    DECLARED + "(assert (and))": r":2:10: 0 arguments for 'and'",
    DECLARED + "(assert (<= X_0))": r":2:10: 1 arguments for '<='; it takes two numbers",
    DECLARED + "(assert (<= X_0 1 2))": r":2:10: 3 arguments for '<='",
    DECLARED + "(assert (<= (+) 1))": r":2:14: 0 arguments for '\+'",
    DECLARED + "(assert X_0)": r":2:9: a number where a comparison is expected 'X_0'",
    DECLARED + "(assert (or (<= X_0 1) (+ X_0 1)))": r":2:24: a number where a comparison is expected '\('",
    DECLARED + "(assert (<= X_0 (or (<= X_1 1))))": r":2:17: a comparison where a number is expected '\('",
    DECLARED + "(assert (<= (X_0) 1))": r":2:14: unknown operator 'X_0'",
    DECLARED + "(assert ((<= X_0 1)))": r":2:10: bracket where an operator is expected",
    DECLARED + "(assert and)": r":2:9: operator without a bracket before it 'and'",
    DECLARED + "(assert (<= X_0 1.2.3))": r":2:17: not a number '1.2.3'; write it like -1.5 or 2e-3",
    DECLARED + "(assert (<= (* 2 X_0) 1_000))": r":2:23: not a number '1_000'",
    DECLARED + "(assert (<= X_0 -inf))": r":2:17: not a number '-inf'",
    DECLARED + "(assert (<= X_0 inf))": r":2:17: unknown name 'inf'",
    DECLARED
    + "(assert (<= X_0 \N{DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}))": r":2:18: character that VNN-LIB does not use",
    DECLARED + '(set-info :a "b)': r":2:14: quotation mark without its partner",
    DECLARED + "(assert (<= X_0 \0 1))": r":2:17: NUL byte",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_one_line_with_place_and_remedy(text: str) -> None:
    with pytest.raises(InputError, match=MALFORMED[text]) as caught:
        parse(text, "some file.vnnlib")
    message = str(caught.value)
    assert message.startswith("some file.vnnlib:")
    assert "\n" not in message


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(InputError, match=r"^q:2:5: byte 0xff is not UTF-8"):
        parse(DECLARED.encode() + b"(ab \xff)", "q")


def test_a_long_token_is_shortened_in_the_message() -> None:
    with pytest.raises(InputError) as caught:
        _read(f"(assert (<= X_0 {'9.' * 5000}))")
    assert len(str(caught.value)) < 200
