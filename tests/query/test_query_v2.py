"""VNN-LIB 2.0: declarations, elements, types; what the columns take and what the reference parser takes agree."""

from __future__ import annotations

import numpy as np
import pytest
from query_text import bound, disjuncts

from falsifier.errors import InputError
from falsifier.query import parse
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import (
    Compare,
    Constant,
    Difference,
    Kind,
    Negate,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Table,
)

HEADER = """(vnnlib-version <2.0>) ; a comment with "(
(declare-network net
  (declare-input X float32 [2,3])
  (declare-input A_rather_long_name int8 [2])
  (declare-hidden H float32 [2] "block/relu;(1)")
  (declare-output Y real [1,2])
  (declare-output Z float32 []))
"""


def _read(asserts: str) -> Query:
    return parse(HEADER + asserts, "q.vnnlib")


def test_declarations() -> None:
    query = _read("(assert (<= Z 1.0))")
    assert query.version == (2, 0)
    (network,) = query.networks
    assert network.name == "net"
    assert [(v.name, v.kind, v.dtype, v.shape, v.onnx_name) for v in query.variables] == [
        ("X", Kind.INPUT, "float32", (2, 3), None),
        ("A_rather_long_name", Kind.INPUT, "int8", (2,), None),
        ("H", Kind.HIDDEN, "float32", (2,), "block/relu;(1)"),
        ("Y", Kind.OUTPUT, "real", (1, 2), None),
        ("Z", Kind.OUTPUT, "float32", (), None),
    ]


def test_elements_become_slots() -> None:
    query = _read(
        "(assert (<= X[0,0] 0.5))(assert (<= 0.25 X[1,2]))(assert (>= A_rather_long_name[1] -3))"
        "(assert (< H[1] X[0,1]))(assert (!= Y[0,1] 2.0))(assert (== Z 1.0))"
    )
    (clause,) = disjuncts(query)
    assert clause == {
        bound("<=", 0, "0.5"),
        bound(">=", 5, "0.25"),
        bound(">=", 7, "-3"),
        Compare(Relation.LT, Reference(9), Reference(1)),
        bound("!=", 11, "2.0"),
        bound("==", 12, "1.0"),
    }
    assert [query.slot_name(i) for i in (0, 5, 7, 9, 11, 12)] == [
        "X[0,0]",
        "X[1,2]",
        "A_rather_long_name[1]",
        "H[1]",
        "Y[0,1]",
        "Z",
    ]
    assert all(isinstance(assertion, Table) for assertion in query.assertions)


def test_arithmetic_goes_through_the_reference_parser() -> None:
    query = _read("(assert (<= (+ X[0,0] (* 2.0 Z) (- Z)) (- 1.50 X[ 0 , 1 ] Z)))")
    assert query.assertions == (
        Compare(
            Relation.LE,
            Sum((Reference(0), Product((Constant("2.0"), Reference(12))), Negate(Reference(12)))),
            Difference(Constant("1.50"), (Reference(1), Reference(12))),
        ),
    )


@pytest.mark.parametrize("blank", [" ", ""])
def test_blanks_inside_of_elements_change_nothing(blank: str) -> None:
    text = f"(assert (or (and (<= X[0{blank},1] 1.0) (>= X[1,{blank}2] 2.0)) (<= Z{blank or ' '}-1.0)))"
    assert disjuncts(_read(text)) == {
        frozenset((bound("<=", 1, "1.0"), bound(">=", 5, "2.0"))),
        frozenset((bound("<=", 12, "-1.0"),)),
    }


def test_several_outputs() -> None:
    query = parse(
        "(vnnlib-version <2.0>)\n(declare-network N\n  (declare-input X float32 [1,1])\n"
        "  (declare-output A float32 [1,1])\n  (declare-output B float32 [1,1])\n)\n"
        "(assert (>= X[0,0] 0.0))\n(assert (<= X[0,0] 1.0))\n(assert (>= A[0,0] -0.25))\n"
        "(assert (<= B[0,0] 0.1))\n(assert (> B[0,0] 0.05))\n"
    )

    def point(x: float, a: float, b: float) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        return [np.array([[v]], dtype=np.float32) for v in (x, a, b)]

    for arithmetic in Arithmetic:
        assert holds(query, point(0.15, -0.15, 0.075), arithmetic)
        assert not holds(query, point(0.3, -0.3, 0.15), arithmetic)
        assert not holds(query, point(0.15, 0.075, -0.15), arithmetic)


def test_several_networks() -> None:
    query = parse(
        "(vnnlib-version <2.0>)(declare-network f (declare-input X real [1,2]) (declare-output Y real [1]))"
        "(declare-network g (isomorphic-to f) (declare-input V real [1,2]) (declare-output W real [1]))"
        "(declare-network h (equal-to f) (declare-input S real [1,2]) (declare-output T real [1]))"
        "(assert (== X[0,1] V[0,1]))(assert (< Y[0] (- W[0] 0.5)))"
    )
    assert [(n.name, n.equal_to, n.isomorphic_to) for n in query.networks] == [
        ("f", None, None),
        ("g", None, "f"),
        ("h", "f", None),
    ]
    assert query.assertions[1] == Compare(Relation.LT, Reference(2), Difference(Reference(5), (Constant("0.5"),)))
    assert disjuncts(query) == {frozenset((Compare(Relation.EQ, Reference(1), Reference(4)), query.assertions[1]))}


def test_a_newer_minor_version_reads_without_a_word_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    query = parse(HEADER.replace("2.0", "2.1") + "(assert (<= Z 1.0))")
    assert query.version == (2, 1)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("word", ["Real", "REAL", "Float32"])
def test_types_in_other_letters_leave_the_type_open(word: str) -> None:
    query = parse(HEADER.replace("Y real", f"Y {word}") + "(assert (<= Y[0,0] 1.0))")
    assert query.variables[3].dtype == "real"


def test_every_element_of_a_large_tensor() -> None:
    asserts = "\n".join(f"(assert (<= X[{i},{j}] {i}.{j:03d}))" for i in range(40) for j in range(500))
    query = parse(
        "(vnnlib-version <2.0>)(declare-network N (declare-input X float64 [40,500]) (declare-output Y real [1]))"
        + asserts
    )
    (table,) = query.assertions
    assert isinstance(table, Table)
    assert table.left.tolist() == list(range(20_000))
    np.testing.assert_array_equal(table.value, [float(f"{i}.{j:03d}") for i in range(40) for j in range(500)])


def test_a_wrong_atom_among_many_is_found() -> None:
    clauses = [f"(and (<= X[0,0] {i}.5) (>= X[1,1] {i}.0))" for i in range(2000)]
    clauses[1234] = "(and (<= X[0,3] 1.5) (>= X[1,1] 1.0))"
    with pytest.raises(InputError, match=r"^q\.vnnlib:1243: Index out of bounds for variable 'X\[0,3\]'; Index 3"):
        _read("(assert (or\n" + "\n".join(clauses) + "))")


MALFORMED = {
    "": r": the query asserts nothing",
    "(assert (<= X[0,3] 0.5))": r":8: Index out of bounds for variable 'X\[0,3\]'; Index 3 is out of bounds",
    "(assert (<= X[-1,0] 0.5))": r":8: index out of bounds 'X\[-1,0\]'; the shape is \[2, 3\]",
    "(assert (<= X[0] 0.5))": r":8: Not enough indices for variable 'X\[0\]'",
    "(assert (<= X 0.5))": r":8: Not enough indices",
    "(assert (<= Z[0] 0.5))": r":8: Invalid indexing for scalar variable",
    "(assert (<= Q[0] 0.5))": r":8: Undeclared variable 'Q'",
    "(assert (<= Xy[0,0] 0.5))": r":8: Undeclared variable 'Xy'",
    "(assert (<= Z 0.5))\n   (assert (<= X[0,1] 1))": r":9: Type mismatch .* '1'; type 'F32' .* wants .* 1\.0",
    "(assert (<= Z 0.5))\n   (assert (<= X[0,1] 1e5))": r":9:24: VNN-LIB 2.0 does not allow 'e5' here; .* no exponents",
    "(assert (<= Z 0.5)) (assert (<= Z .5))": r":8:35: VNN-LIB 2.0 does not allow '.' here; write numbers as",
    "(assert (<= Z 5.))": r":8:16: .* write numbers as",
    "(assert (<= Z +5.0))": r":8:15: .* write numbers as",
    "(assert (= Z 5.0))": r":8:10: VNN-LIB 2.0 does not allow '=' here; write ==",
    "(assert (<= A_rather_long_name[0] 1.0))": r":8: Type mismatch .* '1.0'; type 'I8' .* wants a number like 1$",
    "(assert (<= A_rather_long_name[0] 99999999999999999999))": r": a number is out of the range of the 2.0 parser",
    "(assert (<= X[0,0] A_rather_long_name[0]))": r":8: Type mismatch .* 'A_rather_long_name'",
    "(assert (<= Z 1.0": r":8:1: bracket is never closed",
    "(assert (<= Z 1.0\n(assert (<= Z 2.0)))": r":9:2: the form that opens in line 8 is not closed before 'assert'",
    "(assert (<= Z 1.0)))": r":8:20: bracket closes nothing",
    "(assert (<= 1 Z))": r":8: Type mismatch .* '1'; type 'F32' \(from 'Z'\) wants a number like 1\.0$",
    "(assert (=> (<= Z 1.0) (<= Z 2.0)))": r":8:10: VNN-LIB 2.0 does not allow '=>' here; write .* or an or",
    "(assert (=< Z 1.0))": r":8:10: VNN-LIB 2.0 does not allow '=<' here; write <=",
    "(assert (>== Z 1.0))": r":8:10: VNN-LIB 2.0 does not allow '>==' here; write >=",
    "(assert (<> Z 1.0))": r":8:10: VNN-LIB 2.0 does not allow '<>' here; write !=",
    "(assert (not (<= Z 1.0)))": r":8:10: VNN-LIB 2.0 does not allow 'not' here; 2.0 has no not: turn the comparison",
    "(assert (<= Z (- 1.0 -Z)))": r":8:22: VNN-LIB 2.0 does not allow '-' here; a minus stands directly before",
    '(assert (<= "Z" 1.0))': r":8:13: VNN-LIB 2.0 does not allow '\"' here; names are written without quotes",
    "(Assert (<= Z 1.0))": r":8:2: no form is written 'Assert'; write assert",
    "(assert (<= X_0 1.0))": r":8: Undeclared variable 'X_0'; declared are X, A_rather_long_name, ",
    "(assert (and))": r":8:13: VNN-LIB 2.0 does not allow '\)' here",
    "(assert (<= Z 1.0 2.0))": r":8:19: VNN-LIB 2.0 does not allow '2.0' here",
    "(assert (<= Z 1.0))(check-sat)": r":8:21: only asserts may follow the first assert, not 'check-sat'",
    "(assert (<= Z 1.0)) word": r":8:21: only asserts may follow the first assert, not 'word'",
    f"(assert (<= Z (+ 0.{'0' * 400}1 Z)))": r": a number is out of the range of the 2.0 parser .*, or 0\.0",
    f"(assert (<= Z q{'1' * 9999}))": r":8: Undeclared variable 'q1+\.\.'",
    f"(assert (<= Z 1.{'1' * 9999}q))": r":8:10016: VNN-LIB 2.0 does not allow 'q' here",
    f"(assert (<= Z 1.0 1.{'1' * 9999}))": r":8:19: VNN-LIB 2.0 does not allow '1\.1+\.\.' here",
    "(assert " + "(and " * 100_000 + "(<= (+ Z) 1.0)" + ")" * 100_001: r":8:1: brackets nested more than \d+ deep",
}


@pytest.mark.parametrize("asserts", MALFORMED)
def test_malformed_text_is_one_line(asserts: str) -> None:
    with pytest.raises(InputError, match=MALFORMED[asserts]) as caught:
        _read(asserts)
    assert str(caught.value).startswith("q.vnnlib:")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(vnnlib-version <2.0>)", "", "version statement is missing"),
        ("<2.0>", "<3.0>", "VNN-LIB version 3 is not known"),
        ("Y real", "Y string", "Y has the unknown type 'string'; the types are real"),
        ("declare-output Y", "declare-output X", "Duplicate variable declaration 'X'"),
        ("[1,2]", "[0,2]", "a dimension that is none in the shape of 'Y'; Dimensions must be positive"),
        (
            "declare-output Z",
            "declare-outputs Z",
            r":7:\d+: .* not allow 'declare-outputs' here; the forms are declare-",
        ),
        ("Y real", "Y double", r":\d: Y has the unknown type 'double'"),
        ("Z float32 []", "Z []", r"not allow '\[' here; a variable is \(declare-input NAME TYPE \[D,"),
        ("declare-output Z float32 []", "declare-output Z float32 [100000,100000]", "check the shapes"),
        (
            "(declare-output Z float32 []))",
            "(declare-output Z float32 [])",
            "not closed before 'assert'|does not allow",
        ),
    ],
)
def test_malformed_declarations(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(HEADER.replace(old, new) + "(assert (<= Z 1.0))")
    assert "\n" not in str(caught.value)


def test_many_variables_are_told_apart_by_their_names() -> None:
    """Names that begin with each other, of any length, some longer than what is looked at first."""
    names = [f"{stem}{i}" for stem in ("v", "variable_", "w" * 70) for i in range(40)]
    inputs = "".join(f"(declare-input {name} float32 [2])" for name in names)
    header = f"(vnnlib-version <2.0>)(declare-network n {inputs}(declare-output y float32 [1]))"
    asserts = "".join(f"(assert (<= {name}[1] {i}.5))" for i, name in enumerate(names))
    (clause,) = disjuncts(parse(header + asserts, "q.vnnlib"))
    assert clause == {bound("<=", 2 * i + 1, f"{i}.5") for i in range(len(names))}
