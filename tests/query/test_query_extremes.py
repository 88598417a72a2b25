"""Numbers at the edges of what can be written, from the text to the verdict: y = x on [0, 1]."""

from __future__ import annotations

import models
import pytest

from falsifier import falsify
from falsifier.errors import InputError
from falsifier.query import parse
from falsifier.verdict import Verdict

NUMBERS_1 = ["1e400", "-1e400", "1e-400", "-1e-400", "1e308", "2e-324", "-0", "+0.0", "1e-45", "-1e-46", "00.5"]
NUMBERS_2 = ["-0.0", "-0.5", "00.5", "0." + "0" * 400 + "1", "-0." + "0" * 400 + "1", "1" + "0" * 400 + ".0"]
LONG = ["0." + "3" * 500, "1." + "0" * 499 + "1", "0.99" + "9" * 500, "0.25" + "0" * 500, "-0." + "9" * 500]
NONE = [
    "0x10",
    "inf",
    "-inf",
    "nan",
    "1_0",
    "1e",
    "--1",
    "1.2.3",
    "1/3",
    "1d0",
    "1f",
    "+",
    "\N{ARABIC-INDIC DIGIT ONE}",
]
NET = models.identity().SerializeToString()


def asked(version: int, formula: str) -> str:
    """A query of y = x on [0, 1], with one more assert about x and y."""
    if version == 1:
        head = models.declare(1, 1) + models.box([0], [1])
        return head + f"(assert {formula.replace('x', 'X_0').replace('y', 'Y_0')})\n"
    box = "(assert (and (>= X[0,0] 0.0) (<= X[0,0] 1.0)))\n"
    head = "(vnnlib-version <2.0>)\n(declare-network N (declare-input X real [1,1]) (declare-output Y real [1,1]))\n"
    return head + box + f"(assert {formula.replace('x', 'X[0,0]').replace('y', 'Y[0,0]')})\n"


CASES = [(1, number) for number in NUMBERS_1 + LONG] + [(2, number) for number in NUMBERS_2 + LONG]


def verdict(version: int, formula: str) -> Verdict:
    return falsify(NET, asked(version, formula), timeout=60, max_evaluations=3000).verdict


@pytest.mark.parametrize(("version", "number"), CASES, ids=lambda value: str(value)[:12])
def test_numbers_that_are_hard_to_hold(version: int, number: str) -> None:
    """What is true is found; what is false is never said to be. Checkers compare float64, and so does this."""
    value = float(number)
    zero, one, half = ("0", "1", "0.5") if version == 1 else ("0.0", "1.0", "0.5")
    formulas = {
        f"(>= y {number})": value <= 1,
        f"(<= y {number})": value >= 0,
        f"(and (<= x {number}) (>= y {half}))": value >= 0.5,
        f"(and (>= x {number}) (<= y {half}))": value <= 0.5,
        f"(and (< {number} {one}) (>= y {zero}))": value < 1,
    }
    for formula, expected in formulas.items():
        try:
            found = verdict(version, formula)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert number[:20] in str(error) or "number" in str(error)  # noqa: PT017
            continue
        assert found is not (Verdict.UNSAT if expected else Verdict.SAT), formula
        if expected and min(abs(value - edge) for edge in (0, 0.5, 1)) > 1e-6:
            assert found is Verdict.SAT, formula


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("text", NONE)
def test_what_is_no_number(version: int, text: str) -> None:
    with pytest.raises(InputError) as error:
        parse(asked(version, f"(>= y {text})"), "q")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("q:")


def test_bounds_given_twice_and_bounds_that_exclude_each_other() -> None:
    assert verdict(1, "(and (>= x 0.5) (>= x 0.5) (<= x 0.5) (<= x 0.5) (>= y 0.5))") is Verdict.SAT
    assert verdict(1, "(and (>= x 0.75) (<= x 0.25) (>= y 0))") is Verdict.UNSAT
    assert verdict(2, "(and (>= x 0.75) (<= x 0.25) (>= y 0.0))") is Verdict.UNSAT


def test_a_hundred_thousand_declarations_that_nobody_uses() -> None:
    text = models.declare(10**5, 1) + "(assert (>= Y_0 0))\n"
    assert parse(text).slots == 10**5 + 1
    with pytest.raises(InputError, match="the network has 1"):
        falsify(NET, text, timeout=60)


@pytest.mark.parametrize("index", ["99999999", "100000000", "18446744073709551616", "-1", "00", "01"])
def test_indices_out_of_range(index: str) -> None:
    for text in (asked(1, f"(<= X_{index} 1)"), asked(2, f"(<= X[0,{index}] 1.0)").replace("X[0,00]", "X[0,2]")):
        if "X[0,01]" in text:
            continue  # a way to write 1, which 2.0 reads, and refuses as the index that it is
        with pytest.raises(InputError, match="q:") as error:
            parse(text, "q")
        assert "\n" not in str(error.value)


def test_nesting_a_million_deep_in_2() -> None:
    for inner in ("(and ", "(or ", "(- "):
        text = asked(2, inner * 10**6 + ")" * 10**6)
        with pytest.raises(InputError, match="nested more than 2000 deep"):
            parse(text, "q")
