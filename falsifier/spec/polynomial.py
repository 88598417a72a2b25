"""Arithmetic terms as exact polynomials over slots, in a canonical form that makes equal comparisons share one form.

A polynomial is a dict from monomials (sorted tuples of slots, () for the constant) to Fractions. Nothing here is
recursive.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import TypeAlias, cast

from falsifier.errors import InputError, UnsupportedError
from falsifier.query.folding import fold_term
from falsifier.query.tree import Compare, Constant, Difference, Negate, Product, Reference, Relation, Sum, Term

Monomial: TypeAlias = tuple[int, ...]
Polynomial: TypeAlias = dict[Monomial, Fraction]

_MAX_MONOMIALS = 100_000  # a product of sums beyond this would take minutes and gigabytes
_MAX_EXPONENT = 400  # decimals beyond the range of float64 have no use, and 1e999999999 would fill memory
_PLAIN = 300  # characters of a decimal without an exponent that is within the range of float64
_GREATEST = Fraction(sys.float_info.max)
_NEAR_BITS = sys.float_info.max_exp - 4  # by so many bits may a numerator be longer than its denominator without a look


def number(text: str) -> Fraction:
    """A decimal exactly as written.

    Raises InputError where it is beyond the range of float64.
    """
    mantissa, _, exponent = text.lower().partition("e")
    try:
        if not exponent and len(mantissa) <= _PLAIN:
            return Fraction(mantissa.rstrip(".") or "0")
        if exponent and abs(int(exponent)) > _MAX_EXPONENT:
            value = float(text)
            if value in (float("inf"), float("-inf")):
                raise InputError(f"the constant {text} is beyond the range of float64")
            return Fraction(value)
        scale = Fraction(10) ** int(exponent) if exponent else Fraction(1)
        exact = Fraction(mantissa.rstrip(".") or "0") * scale
    except ValueError:
        raise InputError(f"{text!r} is not a decimal number") from None
    if abs(exact) > _GREATEST:
        raise InputError(f"the constant {text} is beyond the range of float64")
    return exact


def expand(term: Term) -> Polynomial:
    """A term as a polynomial. Raises UnsupportedError for products of sums that grow beyond reason."""
    if isinstance(term, Sum) and all(map(_is_scaled, term.terms)):
        return _linear(term.terms)
    return {monomial: weight for monomial, weight in fold_term(term, _leaf, _joined).items() if weight}


def _is_scaled(term: Term) -> bool:
    """Whether a term is a number times an element, in this order: what long sums are made of."""
    if not isinstance(term, Product) or len(term.terms) != 2:
        return False
    return isinstance(term.terms[0], Constant) and isinstance(term.terms[1], Reference)


def _linear(terms: tuple[Term, ...]) -> Polynomial:
    """The sum of numbers times elements, as `expand` has it."""
    out: Polynomial = {}
    for term in terms:
        constant, reference = cast("tuple[Constant, Reference]", cast("Product", term).terms)
        monomial, weight = (reference.slot,), number(constant.text)
        out[monomial] = out[monomial] + weight if monomial in out else weight
    return {monomial: weight for monomial, weight in out.items() if weight}


def _leaf(leaf: Constant | Reference) -> Polynomial:
    return {(leaf.slot,): Fraction(1)} if isinstance(leaf, Reference) else {(): number(leaf.text)}


def _joined(node: Negate | Sum | Difference | Product, parts: list[Polynomial]) -> Polynomial:
    if isinstance(node, Product):
        return _product(parts)
    if isinstance(node, Sum):
        return _sum(parts)
    if isinstance(node, Negate):
        return _scaled(parts[0], Fraction(-1))
    return _sum([parts[0], *(_scaled(other, Fraction(-1)) for other in parts[1:])])


def _scaled(polynomial: Polynomial, factor: Fraction) -> Polynomial:
    if factor == 1:
        return polynomial
    return {monomial: -weight if factor == -1 else weight * factor for monomial, weight in polynomial.items()}


def _sum(parts: list[Polynomial]) -> Polynomial:
    out = dict(parts[0]) if parts else {}
    for part in parts[1:]:
        for monomial, weight in part.items():
            out[monomial] = out[monomial] + weight if monomial in out else weight
    return out


def _product(parts: list[Polynomial]) -> Polynomial:
    out: Polynomial = parts[0] if parts else {(): Fraction(1)}
    for part in parts[1:]:
        if len(out) * len(part) > _MAX_MONOMIALS:
            raise UnsupportedError(f"a product of sums in the query expands to more than {_MAX_MONOMIALS} terms")
        grown: Polynomial = {}
        for left, a in out.items():
            for right, b in part.items():
                monomial, weight = tuple(sorted(left + right)), a if b == 1 else b if a == 1 else a * b
                grown[monomial] = grown[monomial] + weight if monomial in grown else weight
        out = grown
    return out


def canonical(compare: Compare) -> tuple[Polynomial, Relation, Fraction]:
    """A comparison as (form, relation, constant): form relation constant, the form without a constant term.

    Forms that differ by their sign alone become one, and a multiple of a single slot becomes the slot. The form is
    empty where the comparison mentions no slot.

    Raises UnsupportedError where what its constants add up or multiply to is beyond the range of float64.
    """
    form = _sum([expand(compare.left), _scaled(expand(compare.right), Fraction(-1))])
    constant = -form.pop((), Fraction(0))
    form = {monomial: form[monomial] for monomial in sorted(form) if form[monomial]}
    if not form:
        return form, compare.relation, _in_range(constant)
    leading = next(iter(form.values()))
    factor = 1 / leading if len(form) == 1 and len(next(iter(form))) == 1 else Fraction(-1 if leading < 0 else 1)
    relation = compare.relation.flipped if factor < 0 else compare.relation
    form = _scaled(form, factor)
    for weight in form.values():
        _in_range(weight)
    return form, relation, _in_range(constant * factor)


def _in_range(value: Fraction) -> Fraction:
    longer = value.numerator.bit_length() - value.denominator.bit_length()
    if longer > _NEAR_BITS and abs(value) > _GREATEST:
        raise UnsupportedError("a comparison whose constants make a number beyond the range of float64")
    return value
