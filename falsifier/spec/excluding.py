"""Which bounds on an input exclude each other, and where they stand in the query: for people, once nothing is left."""

from __future__ import annotations

import numpy as np

from falsifier.query.tree import RELATIONS, Query, Relation, Table

_SIDES = {Relation.GE: (1,), Relation.GT: (1,), Relation.LE: (-1,), Relation.LT: (-1,), Relation.EQ: (1, -1)}


def excluding(query: Query, slot: int) -> str:
    """The input `slot` with its narrowest bound on either side, with their lines where the text has lines."""
    from falsifier.query.write import Names

    names = Names(query)
    found: dict[int, tuple[tuple[float, bool], str]] = {}
    for table in query.assertions:
        if not isinstance(table, Table) or len(table.clauses) != 2:
            continue
        for at in np.flatnonzero((table.left == slot) & (table.right < 0)).tolist():
            relation, value = RELATIONS[table.relation[at]], float(table.value[at])
            for side in _SIDES.get(relation, ()):
                narrow = side * value, relation in (Relation.GT, Relation.LT)
                if side not in found or narrow > found[side][0]:
                    said = f"{names(slot)} {names.relations[relation]} {table.constant(at)}{_line(table, at)}"
                    found[side] = narrow, said
    if len(found) < 2:  # the other side is its type's, or that of an input that is tied to it
        return next((said for _, said in found.values()), names(slot)) + " leaves it no value"
    return " and ".join(said for _, said in found.values())


def _line(table: Table, at: int) -> str:
    if b"\n" not in table.source:
        return ""
    return f" (line {table.source.count(bytes([10]), 0, int(table.start[at])) + 1})"
