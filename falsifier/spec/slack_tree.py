"""The way out where a normal form would explode: the formula itself as a min/max tree over a shared table of atoms.

`and` is a min, `or` a max. Nodes are evaluated level by level through padded index arrays, all lanes at once. The
tree has one root per conjunct of the query, so its roots play the part of the atoms of one target.

Axes: b lane, a atom, k root, v value (atoms, then +infinity, -infinity, then nodes), g node of one group, w width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, arange, full, gather, namespace
from falsifier.query.folding import fold
from falsifier.query.tree import And, Compare, Formula, Relation, Table
from falsifier.spec.atoms import AtomTable, Literals, has_unequal
from falsifier.spec.elimination import Elimination
from falsifier.spec.layout import Layout


@dataclass(frozen=True)
class Group:
    """Nodes of one height, kind and width; children `[g, w]` are positions among the values, padded by repetition."""

    children: Array
    minimum: bool
    first: int  # the position of the group's first node among the values


@dataclass(frozen=True)
class SlackTree:
    """A min/max tree over `atoms` atoms with `values` values in all; roots `[k]` are positions among them."""

    atoms: int
    values: int
    groups: tuple[Group, ...]
    roots: Array

    def moved(self, convert: Callable[[NDArray[Any]], Array]) -> SlackTree:
        """The same tree with its index arrays passed through `convert` (to a device)."""
        groups = tuple(replace(group, children=convert(group.children)) for group in self.groups)
        return replace(self, groups=groups, roots=convert(self.roots))

    def evaluate(self, slack: Array) -> tuple[Array, Array]:
        """Slacks of the atoms `[b, a]` to those of the roots `[b, k]`, and the atom that decides each root, `[b, k]`.

        The deciding atom is where the subgradient goes; it is 0 for a root that no atom decides.
        """
        xp = namespace(slack)
        lanes = int(slack.shape[0])
        values = full((lanes, self.values), float("inf"), slack)
        values[:, : self.atoms] = slack
        values[:, self.atoms + 1] = -float("inf")
        chosen = arange(self.values, slack)[None, :] + 0 * arange(lanes, slack)[:, None]
        for group in self.groups:
            children = values[:, group.children]
            pick = xp.argmin(children, axis=2) if group.minimum else xp.argmax(children, axis=2)
            child = group.children[arange(int(group.children.shape[0]), slack)[None, :], pick]
            last = group.first + int(group.children.shape[0])
            values[:, group.first : last] = gather(values, child)
            chosen[:, group.first : last] = gather(chosen, child)
        roots = self.roots[None, :] + (0 * chosen[:, :1])
        deciding = gather(chosen, roots)
        return gather(values, roots), xp.where(deciding < self.atoms, deciding, 0 * deciding)


@dataclass
class _Node:
    children: list[_Ref]
    minimum: bool
    height: int
    position: int = -1


_Ref = int | bool | _Node  # a literal, a truth value, or a node


@dataclass
class TreeBuilder:
    """Grows a SlackTree: `root` adds one conjunct of the query, `build` closes the tree."""

    table: AtomTable
    _roots: list[_Ref] = field(default_factory=list)
    _nodes: list[_Node] = field(default_factory=list)

    def root(self, formula: Formula) -> None:
        """One conjunct of the query."""
        self._roots.append(fold(formula, self._leaf, lambda node, parts: self._join(isinstance(node, And), parts)))

    def _leaf(self, leaf: Compare | Table) -> _Ref:
        if isinstance(leaf, Compare):
            literals = self.table.add(leaf)
            if isinstance(literals, bool):
                return literals
            return self._join(leaf.relation is not Relation.NE, list(literals))
        if has_unequal(leaf):
            return fold(leaf.expand(), self._leaf, lambda node, parts: self._join(isinstance(node, And), parts))
        literals_of, lengths = self.table.add_table(leaf)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        numbers: list[_Ref] = literals_of.tolist()
        return self._join(
            False, [self._join(True, numbers[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        )

    def _join(self, minimum: bool, parts: list[_Ref]) -> _Ref:
        """The min or max of parts: truth values vanish, single children stand for themselves."""
        deciding, neutral = (False, True) if minimum else (True, False)
        if any(part is deciding for part in parts):
            return deciding
        left = [part for part in parts if part is not neutral]
        if not left:
            return neutral
        if len(left) == 1:
            return left[0]
        node = _Node(left, minimum, 1 + max((part.height for part in left if isinstance(part, _Node)), default=0))
        self._nodes.append(node)
        return node

    def build(self, numbers: NDArray[np.int64], conjuncts: NDArray[np.int64]) -> SlackTree:
        """The tree over the literals of the given numbers; those of `conjuncts` are roots of their own."""
        place = {number: i for i, number in enumerate(numbers.tolist())}
        grouped: dict[tuple[int, bool, int], list[_Node]] = {}
        for node in self._nodes:  # widths of one power of two share a group: padding at most doubles it
            key = (node.height, node.minimum, (len(node.children) - 1).bit_length())
            grouped.setdefault(key, []).append(node)
        at = len(numbers) + 2
        groups = []
        for (_, minimum, _), nodes in sorted(grouped.items(), key=lambda item: item[0][0]):
            for offset, node in enumerate(nodes):
                node.position = at + offset
            groups.append(Group(_children(nodes, place), minimum, at))
            at += len(nodes)
        all_roots = [*self._roots, *conjuncts.tolist()] or [True]
        roots = [_position(root, place) for root in all_roots]
        return SlackTree(len(numbers), at, tuple(groups), np.array(roots, np.int64))

    def hull(self, literals: Literals, where: Layout, elimination: Elimination) -> list[tuple[int, int, float]]:
        """Bounds on inputs that the tree implies: (flat input, sign, bound) for sign * x >= bound.

        A max implies the weakest bound of its children where all have one, a min the tightest. Strictness is let go.
        """
        floors = _Floors(self.table, literals, where, elimination)
        of_node: dict[int, _Bounds] = {}

        def bounds(ref: _Ref) -> _Bounds | None:
            """None for a child that cannot hold."""
            if isinstance(ref, bool):
                return {} if ref else None
            return of_node[id(ref)] if isinstance(ref, _Node) else floors.of(ref)

        for node in self._nodes:  # children come before their parents
            parts = [part for part in map(bounds, node.children) if part is not None]
            of_node[id(node)] = _tightest(parts) if node.minimum else _weakest(parts)
        whole = _tightest([part for part in map(bounds, self._roots) if part is not None])
        return [(position, sign, bound) for (position, sign), bound in whole.items()]


_Bounds = dict[tuple[int, int], float]  # (flat input, sign) -> floor


@dataclass(frozen=True)
class _Floors:
    """Bounds on single inputs among the literals."""

    table: AtomTable
    literals: Literals
    where: Layout
    elimination: Elimination

    def of(self, number: int) -> _Bounds:
        form = int(self.literals.form[number])
        if form >= self.table.slots or self.where.kinds[form] != 0:
            return {}
        position = int(self.elimination.root[self.where.x_of[form]])
        return {(position, int(self.literals.sign[number])): float(self.literals.bound[number])}


def _tightest(parts: list[_Bounds]) -> _Bounds:
    out: _Bounds = {}
    for part in parts:
        for key, bound in part.items():
            out[key] = max(out.get(key, bound), bound)
    return out


def _weakest(parts: list[_Bounds]) -> _Bounds:
    if not parts:
        return {}
    shared = set(parts[0]).intersection(*parts[1:])
    return {key: min(part[key] for part in parts) for key in shared}


def _children(nodes: list[_Node], place: dict[int, int]) -> NDArray[np.int64]:
    """The positions of every node's children, `[g, w]`, padded with the last child."""
    widths = np.array([len(node.children) for node in nodes], np.int64)
    flat = np.array([_position(child, place) for node in nodes for child in node.children], np.int64)
    starts = np.cumsum(widths) - widths
    padded: NDArray[np.int64] = flat[
        starts[:, None] + np.minimum(np.arange(widths.max())[None, :], widths[:, None] - 1)
    ]
    return padded


def _position(ref: _Ref, place: dict[int, int]) -> int:
    if isinstance(ref, bool):
        return len(place) + (0 if ref else 1)
    return ref.position if isinstance(ref, _Node) else place[ref]
