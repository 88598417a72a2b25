"""What a text may do to the readers of queries, judged: read or refused in one line, and read as what it says.

A text that is read is compared at points near its constants: the compiled targets, the reference evaluator, and a third
evaluator here, in rational arithmetic, which says nothing where rounding could decide. The text means the same to the
plainest reader (`reader_plain`), and so does what it becomes when it is written, or converted to the other version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import reader_plain
from numpy.typing import NDArray

from falsifier.errors import FalsifierError, InputError, UnsupportedError
from falsifier.query import parse
from falsifier.query.convert import to_1, to_2
from falsifier.query.evaluate import Arithmetic, holds
from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Negate,
    Or,
    Product,
    Query,
    Reference,
    Sum,
    Table,
    Term,
)
from falsifier.query.write import write
from falsifier.spec import compile_query
from falsifier.values import Values

ORIGIN = "query"
POINTS = 8
_MOST_SLOTS = 40
_MOST_ATOMS = 400
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_HUGE = re.compile(rb"[eE][-+]?0*[1-9]\d{2,}|\d{60}")  # exponents and digits that rational arithmetic is not for
_FLOATS = ("real", "float32", "float64")


class DisagreementError(AssertionError):
    """Two readings of one text differ."""


@dataclass(frozen=True)
class Term3:
    """A term in rational arithmetic: its value; `bound`: the sum of the magnitudes of what is added up in it; `bits`:
    it is a sum of multiples of 2^-bits, None where it is none.
    """

    value: Fraction
    bound: Fraction
    bits: int | None


class FormulaEngine:
    """y = W x with small dyadic W: what `Values` asks of an engine."""

    name, device, differentiable, stepped = "formula", "cpu", False, False
    lane_bytes = 64

    def __init__(self, n: int, m: int) -> None:
        self.n, self.m, self.dtype = n, m, np.dtype(np.float64)
        self.matrix = ((np.arange(m)[:, None] * 3 + np.arange(n)[None] * 5) % 9 - 4) / 4.0

    def asarray(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return np.array(x, np.float64)

    def outputs(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(x @ self.matrix.T)


def judge(text: bytes, rng_seed: int = 0) -> str:
    """`refused`, `unsupported`, `read` or `compared`. Raises DisagreementError, or what readers must not raise."""
    try:
        query = parse(text, ORIGIN)
    except InputError as error:
        _demand_line(error)
        return "refused"
    except UnsupportedError as error:
        _demand_line(error)
        return "unsupported"
    if not query.slots or query.slots > _MOST_SLOTS or _HUGE.search(text) or _atoms(query) > _MOST_ATOMS:
        return "read"
    try:
        return _compared(query, text.decode("utf-8-sig"), _points(query, text, rng_seed))
    except RecursionError:
        return "read"  # of the evaluator here, which is no reader
    except FalsifierError as error:
        _demand_line(error)
        return "read"


def _demand_line(error: FalsifierError) -> None:
    if not re.fullmatch(r"[^\n\r]+", str(error)):
        raise DisagreementError(f"not one line: {error!s}")


def _atoms(query: Query) -> int:
    """Comparisons of a query, or what is more than enough."""
    count, todo = 0, list(query.assertions)
    while todo and count <= _MOST_ATOMS:
        formula = todo.pop()
        if isinstance(formula, And | Or):
            todo.extend(formula.parts)
            count += 1
        else:
            count += len(formula) if isinstance(formula, Table) else 1
    return count


def _compared(query: Query, text: str, points: NDArray[np.float64]) -> str:
    kinds = query.slot_kinds()
    n = int((kinds == 0).sum())
    if n == 0:
        return "read"
    engine = FormulaEngine(n, len(kinds) - n)
    inputs = points[:, :n]
    full = np.empty((len(inputs), len(kinds)))
    full[:, kinds == 0], full[:, kinds > 0] = inputs, engine.outputs(inputs)
    exact = [[Fraction(float(v)) for v in row] for row in full]
    truths = [truth(query, row) for row in exact]
    _compare_plain(query, text, exact[: POINTS // 2])
    _compare_evaluator(query, full, truths)
    _compare_conversions(query, exact[: POINTS // 2])
    if any(v.dtype not in _FLOATS for v in query.variables):
        return "read"
    return _compare_compiled(query, engine, inputs, truths)


def _compare_plain(query: Query, text: str, exact: Sequence[Sequence[Fraction]]) -> None:
    """What was read is what the plainest reader reads."""
    for row in exact:
        found = truth(query, row, exactly=True)
        try:
            plainly = reader_plain.holds(text, row)
        except reader_plain.OddFormError:
            return  # 2.0 needs no blank behind a sign, for one
        if found != plainly:
            raise DisagreementError(f"read it is {found} at {[float(v) for v in row]}, plainly {plainly}")


def _compare_evaluator(query: Query, full: NDArray[np.float64], truths: Sequence[bool | None]) -> None:
    ends = np.cumsum([v.size for v in query.variables])[:-1]
    for row, expected in zip(full, truths, strict=True):
        found = holds(query, np.split(row, ends), Arithmetic.EXACT)
        if expected is not None and found != expected:
            raise DisagreementError(f"the evaluator says {found} at {row.tolist()}, rational arithmetic {expected}")


def _compare_conversions(query: Query, exact: Sequence[Sequence[Fraction]]) -> None:
    """Written, and converted, a query has the same truth at every point, with nothing left open."""
    before = [truth(query, row, exactly=True) for row in exact]
    copies = {"written": query}
    try:
        copies["converted"] = to_2(query) if query.version[0] == 1 else to_1(query)
    except InputError as error:
        _demand_line(error)
    for how, copy in copies.items():
        try:
            text = write(copy)
        except FalsifierError as error:
            _demand_line(error)
            continue
        after = parse(text, how)
        if [truth(after, row, exactly=True) for row in exact] != before:
            raise DisagreementError(f"{how} it has another meaning: {text[:300]!r}")


def _compare_compiled(
    query: Query, engine: FormulaEngine, inputs: NDArray[np.float64], truths: Sequence[bool | None]
) -> str:
    spec = compile_query(query, np.float64)
    found = np.zeros(len(inputs), bool)
    fixed = False
    if not spec.empty and spec.domain is not None:
        values = Values(spec, engine)  # type: ignore[arg-type]
        # a point off a pinned or tied input, or of a band, by rounding is not reached
        fixed = spec.domain.f < engine.n or spec.domain.band is not None
        if spec.domain.f == 0 or spec.assumed:  # bounds that the text does not give
            return "read"
        short = values.domain.restrict(engine.asarray(inputs))
        reached = (np.asarray(values.embed(short)) == inputs).all(axis=1)
        with np.errstate(all="ignore"):
            found = reached & (np.asarray(values.screen(short)) >= 0).any(axis=1)
    for point, said, expected in zip(inputs, found.tolist(), truths, strict=True):
        if expected is None or said == expected or (fixed and expected):
            continue
        raise DisagreementError(f"compiled it is {said} at {point.tolist()}, in rational arithmetic {expected}")
    return "compared"


def _points(query: Query, text: bytes, rng_seed: int) -> NDArray[np.float64]:
    """Points `[POINTS, slots]` on, beside and between the numbers of a text, and small dyadic ones."""
    rng = np.random.default_rng(rng_seed)
    numbers = [float(found[0]) for found, _ in zip(_NUMBER.finditer(text), range(200), strict=False)]
    near = np.array([v for v in numbers if abs(v) <= 1e6] or [0.0])
    shape = (POINTS, query.slots)
    drawn = near[rng.integers(0, len(near), shape)]
    drawn = np.where(rng.random(shape) < 0.2, np.nextafter(drawn, rng.choice([-np.inf, np.inf], shape)), drawn)
    drawn = np.where(rng.random(shape) < 0.3, (drawn + near[rng.integers(0, len(near), shape)]) / 2, drawn)
    drawn = np.where(rng.random(shape) < 0.3, rng.integers(-8, 9, shape) / 4, drawn)
    narrow = any(variable.dtype == "float32" for variable in query.variables)
    return drawn.astype(np.float32).astype(np.float64) if narrow else drawn


def truth(query: Query, at: Sequence[Fraction], *, exactly: bool = False) -> bool | None:
    """Whether a query holds at slot values; None where float64 could say either, unless `exactly`."""
    return _all(_holds(formula, at, exactly) for formula in query.assertions)


def _all(parts: Iterator[bool | None]) -> bool | None:
    found: list[bool | None] = list(parts)
    return False if False in found else None if None in found else True


def _any(parts: Iterator[bool | None]) -> bool | None:
    found: list[bool | None] = list(parts)
    return True if True in found else None if None in found else False


def _holds(formula: Formula, at: Sequence[Fraction], exactly: bool) -> bool | None:
    if isinstance(formula, Table):
        formula = formula.expand()
    if isinstance(formula, Compare):
        return _compare(formula, at, exactly)
    parts = (_holds(part, at, exactly) for part in formula.parts)
    return _all(parts) if isinstance(formula, And) else _any(parts)


def _compare(compare: Compare, at: Sequence[Fraction], exactly: bool) -> bool | None:
    a, b = _term(compare.left, at), _term(compare.right, at)
    difference, bound = a.value - b.value, a.bound + b.bound
    if not exactly:
        bits = None if a.bits is None or b.bits is None else max(a.bits, b.bits)
        representable = bits is not None and bound * 2**bits < 2**50 and bits < 200
        if not representable and abs(difference) <= bound / 10**9 + Fraction(1, 10**250):
            return None
        if bound > 10**120:
            return None
    answers = {
        "<=": difference <= 0,
        "<": difference < 0,
        ">=": difference >= 0,
        ">": difference > 0,
        "==": difference == 0,
        "!=": difference != 0,
    }
    return answers[compare.relation.value]


def _term(term: Term, at: Sequence[Fraction]) -> Term3:
    match term:
        case Constant(text):
            return _leaf(Fraction(text))
        case Reference(slot):
            return _leaf(at[slot])
        case Negate(inner):
            found = _term(inner, at)
            return Term3(-found.value, found.bound, found.bits)
        case Sum(terms):
            return _sum([_term(part, at) for part in terms])
        case Difference(head, rest):
            first, others = _term(head, at), [_term(part, at) for part in rest]
            return _sum([first, *(Term3(-o.value, o.bound, o.bits) for o in others)])
        case Product(terms):
            out = Term3(Fraction(1), Fraction(1), 0)
            for part in terms:
                factor = _term(part, at)
                bits = None if out.bits is None or factor.bits is None else out.bits + factor.bits
                out = Term3(out.value * factor.value, out.bound * factor.bound, bits)
            return out
    raise TypeError(term)


def _leaf(value: Fraction) -> Term3:
    power = value.denominator
    return Term3(value, abs(value), power.bit_length() - 1 if power & (power - 1) == 0 else None)


def _sum(terms: Sequence[Term3]) -> Term3:
    known = [t.bits for t in terms if t.bits is not None]
    bits = max(known, default=0) if len(known) == len(terms) else None
    return Term3(sum((t.value for t in terms), Fraction(0)), sum((t.bound for t in terms), Fraction(0)), bits)
