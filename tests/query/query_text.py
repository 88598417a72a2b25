"""Random queries for the tests of this folder, and the disjuncts of a tree as sets: equal iff two trees say the
same atom by atom.
"""

from __future__ import annotations

from itertools import product

from hypothesis import settings
from hypothesis import strategies as st

from falsifier.query.tree import (
    RELATIONS,
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Kind,
    Negate,
    NetworkDeclaration,
    Or,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Table,
    Term,
    Variable,
)

# A machine under load is no failure; half the usual number of trees keeps this folder quick.
TREES = settings(deadline=None, max_examples=50)

Disjuncts = frozenset[frozenset[Compare]]

DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS_1 = st.builds(
    lambda sign, body, exponent: sign + body + exponent,
    st.sampled_from(["", "-", "+"]),
    st.one_of(
        DIGITS,
        st.builds("{}.".format, DIGITS),
        st.builds(".{}".format, DIGITS),
        st.builds("{}.{}".format, DIGITS, DIGITS),
        st.floats(0, 1e6).map(lambda v: f"{v:.16f}"),
    ),
    st.one_of(st.just(""), st.builds("e{}".format, st.integers(-40, 40)), st.builds("E+{}".format, st.integers(0, 9))),
)
NUMBERS_2 = st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS)


def one_network(version: tuple[int, int], inputs: int, outputs: int, assertions: tuple[Formula, ...] = ()) -> Query:
    shapes = ((inputs,), (outputs,)) if version[0] == 1 else ((1, inputs), (outputs,))
    network = NetworkDeclaration(
        "" if version[0] == 1 else "N",
        (Variable("X", Kind.INPUT, "real", shapes[0]),),
        (Variable("Y", Kind.OUTPUT, "real", shapes[1]),),
    )
    return Query(version, (network,), assertions)


@st.composite
def queries(draw: st.DrawFn, version: tuple[int, int]) -> Query:
    """A query over 3 inputs and 2 outputs with up to 4 assertions, of bounds and of anything else."""
    constants = (NUMBERS_1 if version[0] == 1 else NUMBERS_2).map(Constant)
    references = st.integers(0, 4).map(Reference)
    relations = st.sampled_from([r for r in RELATIONS if version[0] == 2 or r is not Relation.NE])
    terms: st.SearchStrategy[Term] = st.recursive(
        st.one_of(constants, references),
        lambda inner: st.one_of(
            st.builds(Negate, inner),
            st.lists(inner, min_size=1, max_size=3).map(lambda t: Sum(tuple(t))),
            st.lists(inner, min_size=1, max_size=3).map(lambda t: Product(tuple(t))),
            st.lists(inner, min_size=2, max_size=3).map(lambda t: Difference(t[0], tuple(t[1:]))),
        ),
        max_leaves=4,
    )
    simple = st.one_of(
        st.builds(Compare, relations, references, constants),
        st.builds(Compare, relations, constants, references),
        st.builds(Compare, relations, references, references),
    )
    atoms = st.one_of(simple, simple, st.builds(Compare, relations, terms, terms))
    formulas: st.SearchStrategy[Formula] = st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda f: And(tuple(f))),
            st.lists(inner, min_size=1, max_size=3).map(lambda f: Or(tuple(f))),
        ),
        max_leaves=6,
    )
    assertions = draw(st.lists(st.one_of(simple, formulas), min_size=1, max_size=4))
    return one_network(version, 3, 2, tuple(assertions))


def disjuncts(query: Query) -> Disjuncts:
    """The disjuncts of the whole query, each the set of its atoms; a constant on the left counts as on the right."""
    return _all_of([_disjuncts(assertion) for assertion in query.assertions])


def _disjuncts(formula: Formula) -> Disjuncts:
    if isinstance(formula, Table):
        formula = formula.expand()
    if isinstance(formula, And):
        return _all_of([_disjuncts(part) for part in formula.parts])
    if isinstance(formula, Or):
        return frozenset().union(*(_disjuncts(part) for part in formula.parts))
    if isinstance(formula.left, Constant) and isinstance(formula.right, Reference):
        formula = Compare(formula.relation.flipped, formula.right, formula.left)
    return frozenset((frozenset((formula,)),))


def _all_of(parts: list[Disjuncts]) -> Disjuncts:
    return frozenset(frozenset().union(*chosen) for chosen in product(*parts))


def bound(relation: str, slot: int, constant: str) -> Compare:
    return Compare(Relation(relation), Reference(slot), Constant(constant))
