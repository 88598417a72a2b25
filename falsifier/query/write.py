"""A syntax tree back to text, 1.0 or 2.0 as the query says, constants exactly as they were written. Never recursive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

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

_OPERATORS = {And: "and", Or: "or", Negate: "-", Difference: "-", Sum: "+", Product: "*"}


def write(query: Query) -> str:
    """The query as text: declarations, then one assert a line. A conjunction of bounds becomes one assert for each."""
    lines = list(_declarations_1(query) if query.version[0] == 1 else _declarations_2(query))
    names = Names(query)
    for assertion in query.assertions:
        if isinstance(assertion, Table) and len(assertion.clauses) == 2:
            lines.extend(f"(assert {atom})" for atom in _atoms(assertion, names))
        else:
            lines.append(f"(assert {_formula(assertion, names)})")
    return "\n".join(lines) + "\n"


def comparison(query: Query, atom: Compare) -> str:
    """One comparison as the text of its query writes it."""
    return _formula(atom, Names(query))


def _declarations_1(query: Query) -> Iterator[str]:
    for _, variable, _ in query.offsets():
        for i in range(variable.size):
            yield f"(declare-const {variable.name}_{i} Real)"


def _declarations_2(query: Query) -> Iterator[str]:
    yield "(vnnlib-version <{}.{}>)".format(*query.version)
    for network in query.networks:
        yield f"(declare-network {network.name}{_relative(network)}"
        for variable in network.variables:
            yield f"    {_declaration(variable)}"
        yield ")"


def _relative(network: NetworkDeclaration) -> str:
    if network.equal_to is not None:
        return f" (equal-to {network.equal_to})"
    return f" (isomorphic-to {network.isomorphic_to})" if network.isomorphic_to is not None else ""


def _declaration(variable: Variable) -> str:
    word = {Kind.INPUT: "input", Kind.HIDDEN: "hidden", Kind.OUTPUT: "output"}[variable.kind]
    shape = ",".join(str(d) for d in variable.shape)
    onnx_name = f' "{variable.onnx_name}"' if variable.onnx_name is not None else ""
    return f"(declare-{word} {variable.name} {variable.dtype} [{shape}]{onnx_name})"


class Names:
    """How a query's version spells slots, made when first asked for, and relations."""

    def __init__(self, query: Query) -> None:
        self._version = query.version[0]
        self._spans = [(at, variable) for _, variable, at in query.offsets()]
        self._starts = np.array([at for at, _ in self._spans], dtype=np.int64)
        self._known: dict[int, str] = {}
        self.relations = {
            relation: "=" if relation is Relation.EQ and self._version == 1 else relation.value
            for relation in RELATIONS
        }

    def __call__(self, slot: int) -> str:
        found = self._known.get(slot)
        if found is None:
            at, variable = self._spans[int(np.searchsorted(self._starts, slot, side="right")) - 1]
            found = self._known[slot] = element(self._version, variable, slot - at)
        return found


def element(version: int, variable: Variable, index: int) -> str:
    """The name of the index-th (row-major) element of a variable: `X_3` in 1.0, `X[0,3]` in 2.0."""
    if version == 1:
        return f"{variable.name}_{index}"
    if not variable.shape:
        return variable.name
    return f"{variable.name}[{','.join(str(int(i)) for i in np.unravel_index(index, variable.shape))}]"


def _atoms(table: Table, name: Names) -> list[str]:
    relations = [name.relations[RELATIONS[code]] for code in table.relation.tolist()]
    columns = zip(relations, table.left.tolist(), table.right.tolist(), strict=True)
    return [
        f"({relation} {name(left)} {table.constant(i) if right < 0 else name(right)})"
        for i, (relation, left, right) in enumerate(columns)
    ]


def _table(table: Table, name: Names) -> str:
    atoms = _atoms(table, name)
    bounds = table.clauses.tolist()
    clauses = [atoms[a] if b - a == 1 else f"(and {' '.join(atoms[a:b])})" for a, b in pairwise(bounds)]
    return clauses[0] if len(clauses) == 1 else f"(or {' '.join(clauses)})"


def _formula(formula: Formula, name: Names) -> str:
    out: list[str] = []
    todo: list[Formula | Term | str] = [formula]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Constant):
            out.append(part.text)
        elif isinstance(part, Reference):
            out.append(name(part.slot))
        elif isinstance(part, Table):
            out.append(_table(part, name))
        else:
            operator, parts = _opened(part, name)
            out.append(f"({operator}")
            todo.append(")")
            for inner in reversed(parts):
                todo.extend((inner, " "))
    return "".join(out)


def _opened(
    part: Compare | And | Or | Negate | Sum | Difference | Product, name: Names
) -> tuple[str, tuple[Formula | Term, ...]]:
    if isinstance(part, Compare):
        return name.relations[part.relation], (part.left, part.right)
    if isinstance(part, Negate):
        return "-", (part.term,)
    if isinstance(part, Difference):
        return "-", (part.head, *part.rest)
    return _OPERATORS[type(part)], part.parts if isinstance(part, And | Or) else part.terms
