"""A query of one version of VNN-LIB as one of the other, with the same meaning; `write` makes the text.

Slots stay what they are, so that every assignment of the one is an assignment of the other. Nothing is rounded: what
the other version cannot say exactly is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from falsifier.errors import InputError
from falsifier.query.folding import degree, depth, flattened, fold, fold_term
from falsifier.query.plain import PLAIN, plain
from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Difference,
    Formula,
    Kind,
    Negate,
    NetworkDeclaration,
    Product,
    Query,
    Reference,
    Relation,
    Sum,
    Table,
    Term,
    Variable,
)
from falsifier.query.write import comparison
from falsifier.records import replaced

DEEPEST = 1900  # brackets: the reference parser of 2.0 recurses, and ours stops at 2000
_FLOATS = ("real", "float16", "float32", "float64", "bfloat16")
_STRICT = (Relation.LT, Relation.GT)


def to_2(query: Query, inputs: Variable | None = None, outputs: Variable | None = None) -> Query:
    """A 1.0 query as 2.0: one network N with an input X and an output Y.

    `inputs`, `outputs`: how the network declares its tensors, where that is known; flat and `real` otherwise. Types are
    taken over where both are of one float type: 2.0 lets no comparison mix types, and 1.0 knows real numbers alone.

    Raises InputError where a size differs, where inputs or outputs are missing, for constants that readers of 2.0
    refuse, and for alternating ands and ors that nest too deep for them.
    """
    if query.version[0] != 1:
        return query
    (network,) = query.networks
    x, y = (_declared(query, *pair) for pair in ((network.inputs[0], inputs), (network.outputs[0], outputs)))
    if x.dtype != y.dtype or x.dtype not in _FLOATS:
        x, y = replaced(x, dtype="real"), replaced(y, dtype="real")
    assertions = []
    for assertion in query.assertions:
        written = _rewritten(assertion, partial(_plain_leaf, query))
        if depth(written) > DEEPEST:
            written = flattened(written)
        if depth(written) > DEEPEST:
            raise InputError(
                f"{query.origin}: an assert nests more than {DEEPEST} deep, which readers of 2.0 cannot take"
            )
        assertions.append(written)
    if not assertions:
        raise InputError(f"{query.origin}: the query asserts nothing; VNN-LIB 2.0 asks for at least one assert")
    return Query((2, 0), (NetworkDeclaration("N", (x,), (y,)),), tuple(assertions), query.origin)


def _declared(query: Query, flat: Variable, known: Variable | None) -> Variable:
    word = {Kind.INPUT: "input", Kind.OUTPUT: "output"}[flat.kind]
    if known is None:
        if not flat.size:
            remedy = "give the network" if flat.kind is Kind.OUTPUT else "declare its inputs"
            raise InputError(f"{query.origin}: declares no {word}, and VNN-LIB 2.0 asks for one: {remedy}")
        return flat
    if flat.size not in ((known.size, 0) if flat.kind is Kind.OUTPUT else (known.size,)):
        raise InputError(f"{query.origin}: declares {flat.size} {word}s {flat.name}, the network has {known.size}")
    return replaced(known, name=flat.name, kind=flat.kind)


def to_1(query: Query) -> Query:
    """A 2.0 query as 1.0, where it can say the same: one network of one input and one output, of float or real type,
    linear comparisons, none of them strict.

    Raises InputError with what stands in the way.
    """
    if query.version[0] == 1:
        return query
    if len(query.networks) > 1:
        names = ", ".join(network.name for network in query.networks)
        _refuse(query, f"it declares the networks {names}, and 1.0 has one")
    (network,) = query.networks
    if network.hidden:
        _refuse(query, f"{network.hidden[0].name} is a hidden node, and 1.0 has none")
    for variables, word in ((network.inputs, "input"), (network.outputs, "output")):
        if len(variables) > 1:
            _refuse(query, f"{network.name} has the {word}s {', '.join(v.name for v in variables)}, and 1.0 has one")
    for variable in network.variables:
        if variable.dtype not in _FLOATS:
            _refuse(query, f"{variable.name} is {variable.dtype}, and 1.0 knows real numbers alone")
    x, y = (Variable(n, v.kind, "real", (v.size,)) for n, v in zip("XY", network.variables, strict=True))
    assertions = tuple(_rewritten(assertion, partial(_sayable_leaf, query)) for assertion in query.assertions)
    return Query((1, 0), (NetworkDeclaration("", (x,), (y,)),), assertions, query.origin)


def _refuse(query: Query, reason: str) -> NoReturn:
    raise InputError(f"{query.origin}: cannot be written as 1.0: {reason}")


def _rewritten(formula: Formula, leaf: Callable[[Compare | Table], Formula]) -> Formula:
    """A formula with every leaf exchanged."""
    return fold(formula, leaf, lambda node, parts: type(node)(tuple(parts)))


# --- 1.0 to 2.0 ---


def _plain_leaf(query: Query, leaf: Compare | Table) -> Formula:
    if isinstance(leaf, Table):
        return _plain_table(query, leaf)
    left, right = (fold_term(side, partial(_plain_atom, query), _made) for side in (leaf.left, leaf.right))
    return Compare(leaf.relation, left, right)


def _plain_atom(query: Query, term: Constant | Reference) -> Term:
    return term if isinstance(term, Reference) else Constant(_plain_number(query, term.text))


def _made(like: Negate | Sum | Difference | Product, parts: list[Term]) -> Term:
    if isinstance(like, Negate):
        return Negate(parts[0])
    if isinstance(like, Difference):
        return Difference(parts[0], tuple(parts[1:]))
    return type(like)(tuple(parts))


def _plain_number(query: Query, text: str) -> str:
    try:
        return plain(text)
    except InputError as error:
        raise InputError(f"{query.origin}: {error}") from None


def _plain_table(query: Query, table: Table) -> Table:
    """The constants that are not plain already are written behind the source, and pointed at there."""
    fine, source = PLAIN.fullmatch, table.source
    start, stop = table.start.tolist(), table.stop.tolist()
    constants = np.flatnonzero(table.right < 0).tolist()
    changed = [i for i in constants if not fine(source, start[i], stop[i])]
    if not changed:
        return table
    texts = [_plain_number(query, table.constant(i)).encode() for i in changed]
    ends = np.cumsum([len(text) for text in texts]) + len(source)
    new_start, new_stop = table.start.copy(), table.stop.copy()
    new_start[changed], new_stop[changed] = np.r_[len(source), ends[:-1]], ends
    return replace(table, start=new_start, stop=new_stop, source=b"".join([source, *texts]))


# --- 2.0 to 1.0 ---


def _sayable_leaf(query: Query, leaf: Compare | Table) -> Formula:
    return _sayable_table(query, leaf) if isinstance(leaf, Table) else _sayable_compare(query, leaf)


def _sayable_compare(query: Query, compare: Compare) -> Formula:
    _check_relation(query, compare)
    if max(degree(compare.left), degree(compare.right)) > 1:
        _refuse(query, f"{comparison(query, compare)} multiplies variables, and 1.0 is linear")
    if compare.relation is Relation.EQ:
        return And(tuple(Compare(relation, compare.left, compare.right) for relation in (Relation.LE, Relation.GE)))
    return compare


def _check_relation(query: Query, compare: Compare) -> None:
    if compare.relation in _STRICT:
        _refuse(query, f"{comparison(query, compare)} is strict, and readers of 1.0 take < for <=")
    if compare.relation is Relation.NE:
        _refuse(query, f"{comparison(query, compare)} has no counterpart there")


def _sayable_table(query: Query, table: Table) -> Table:
    """The same table with every `==` as two atoms."""
    for relation in (*_STRICT, Relation.NE):
        found = table.relation == relation.code
        if bool(found.any()):
            _check_relation(query, table.atom(int(np.argmax(found))))
    equal = table.relation == Relation.EQ.code
    if not bool(equal.any()):
        return table
    copies = np.where(equal, 2, 1)
    atom = np.repeat(np.arange(len(table)), copies)
    codes = table.relation[atom]
    codes[equal[atom]] = Relation.GE.code
    codes[(np.cumsum(copies) - copies)[equal]] = Relation.LE.code
    clauses = np.concatenate(([0], np.cumsum(copies)))[table.clauses]
    return replace(table.take(atom), relation=codes, clauses=clauses)
