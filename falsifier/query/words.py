"""Formulas in plain words, infix, a few lines of each: for people, never to be read back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise

from falsifier.query.folding import fold_term, leaves
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
    Relation,
    Sum,
    Table,
    Term,
)
from falsifier.query.write import Names

_MOST = 4  # parts of one connective that are shown
_DEEPEST = 3  # connectives in each other that are taken apart
_LONGEST = 160  # characters of one comparison
_SIGNS = {Relation.EQ: "=", Relation.NE: "is not"}


class Words:
    """Says formulas of one query."""

    def __init__(self, query: Query) -> None:
        self._name: Callable[[int], str] = Names(query)

    def lines(self, formula: Formula, depth: int = 0) -> list[str]:
        """What a formula demands, as lines to be put below each other; inner ones are indented by two blanks."""
        if isinstance(formula, Table):
            return self._table(formula)
        if isinstance(formula, Compare):
            return [self._compare(formula)]
        if len(formula.parts) == 1:
            return self.lines(formula.parts[0], depth)
        if depth == _DEEPEST:
            word = "all" if isinstance(formula, And) else "one"
            return [f"{word} of {len(formula.parts)} parts with {_count(formula)} comparisons together"]
        shown = [self.lines(part, depth + 1) for part in formula.parts[:_MOST]]
        return _listed(shown, len(formula.parts), alternatives=isinstance(formula, Or))

    def _table(self, table: Table) -> list[str]:
        clauses = [self._clause(table, a, b) for a, b in islice(pairwise(table.clauses.tolist()), _MOST)]
        count = len(table.clauses) - 1
        if count == 1:
            return _listed([[line] for line in clauses[0]], int(table.clauses[1]), alternatives=False)
        return _listed([[" and ".join(clause)] for clause in clauses], count, alternatives=True)

    def _clause(self, table: Table, first: int, last: int) -> list[str]:
        shown = [self._compare(table.atom(i)) for i in range(first, min(last, first + _MOST))]
        alone = len(table.clauses) == 2  # its parts are lines of their own, which are counted there
        return shown if alone or last - first <= _MOST else [*shown, f"{last - first - _MOST} more"]

    def _compare(self, compare: Compare) -> str:
        sign = _SIGNS.get(compare.relation, compare.relation.value)
        text = f"{self._term(compare.left)} {sign} {self._term(compare.right)}"
        return text if len(text) <= _LONGEST else text[:_LONGEST] + " .."

    def _term(self, term: Term) -> str:
        text = fold_term(term, self._leaf, _joined)
        return text[1:-1] if isinstance(term, Sum | Difference | Product) and text.startswith("(") else text

    def _leaf(self, leaf: Constant | Reference) -> str:
        return leaf.text if isinstance(leaf, Constant) else self._name(leaf.slot)


def _joined(node: Negate | Sum | Difference | Product, parts: list[str]) -> str:
    if isinstance(node, Negate):
        return f"-{parts[0]}"
    sign = " * " if isinstance(node, Product) else " + " if isinstance(node, Sum) else " - "
    return f"({sign.join(parts)})" if len(parts) > 1 else parts[0]


def _listed(shown: list[list[str]], count: int, *, alternatives: bool) -> list[str]:
    """The shown ones of `count` parts; those of an `and` stand by themselves."""
    more = [f"and {count - len(shown)} more"] if count > len(shown) else []
    if not alternatives:
        return [line for part in shown for line in part] + more
    inner = [f"{'- ' if i == 0 else '  '}{line}" for part in shown for i, line in enumerate(part)] + more
    return [f"one of {count}:" if count else "one of nothing", *(f"  {line}" for line in inner)]


def _count(formula: Formula) -> int:
    return sum(len(leaf) if isinstance(leaf, Table) else 1 for leaf in leaves(formula))
