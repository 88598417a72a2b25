"""Which theories of the VNN-LIB standard (chapter 4) a query needs: of each set the least one that holds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from falsifier.query.folding import degree, leaves, references
from falsifier.query.tree import Compare, NetworkDeclaration, Query, Reference, Table

ARITHMETIC = ("BND", "OUTC", "LIN", "POLY")
"""Levels of arithmetic: variables against constants; also outputs against outputs; linear; polynomial."""


@dataclass(frozen=True)
class Theories:
    """The standard's identifiers, one of each set; `types` are the declared element types in the order of the text."""

    hidden_nodes: str
    inputs_outputs: str
    networks: str
    node_comparisons: str
    arithmetic: str
    types: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        sets = (self.hidden_nodes, self.inputs_outputs, self.networks, self.node_comparisons, self.arithmetic)
        return (*sets, *self.types)


def theories(query: Query) -> Theories:
    """The theories of a query. A 1.0 query counts as one network with real inputs and outputs."""
    several = any(len(n.inputs) > 1 or len(n.outputs) > 1 for n in query.networks)
    nodes = _Nodes(query)
    mixed, level = False, 0
    for leaf in (leaf for formula in query.assertions for leaf in leaves(formula)):
        mixes, at = nodes.of_table(leaf) if isinstance(leaf, Table) else nodes.of_compare(leaf)
        mixed, level = mixed or mixes, max(level, at)
    return Theories(
        "H" if any(network.hidden for network in query.networks) else "NH",
        "MIO" if several else "SIO",
        _of_networks(query.networks),
        "MNC" if mixed else "SNC",
        ARITHMETIC[level],
        tuple(dict.fromkeys(variable.dtype for variable in query.variables)),
    )


def _of_networks(networks: tuple[NetworkDeclaration, ...]) -> str:
    if len(networks) == 1:
        return "SNET"
    own = sum(network.equal_to is None for network in networks)
    apart = sum(network.equal_to is None and network.isomorphic_to is None for network in networks)
    return "MENET" if own == 1 else "MINET" if apart == 1 else "MNET"


class _Nodes:
    """Which variable and which network every slot belongs to, and whether it is an input."""

    def __init__(self, query: Query) -> None:
        sizes = [variable.size for variable in query.variables]
        networks = [i for i, network in enumerate(query.networks) for _ in network.variables]
        self._variable = np.repeat(np.arange(len(sizes)), sizes)
        self._network = np.repeat(np.array(networks, dtype=np.int64), sizes)
        self._input = query.slot_kinds() == 0

    def of_table(self, table: Table) -> tuple[bool, int]:
        """Whether some comparison mixes nodes of one network, and the level of arithmetic."""
        pair = table.right >= 0
        left, right = table.left[pair], table.right[pair]
        if not len(left):
            return False, 0
        mixed: NDArray[np.bool_] = self._network[left] == self._network[right]
        mixed &= self._variable[left] != self._variable[right]
        return bool(mixed.any()), 2 if bool((self._input[left] | self._input[right]).any()) else 1

    def of_compare(self, compare: Compare) -> tuple[bool, int]:
        """As `of_table`."""
        slots = np.array([*references(compare.left), *references(compare.right)], dtype=np.int64)
        nodes = {(int(self._network[slot]), int(self._variable[slot])) for slot in slots}
        mixed = len(nodes) > len({network for network, _ in nodes})
        sides = [compare.left, compare.right]
        degrees = sorted(map(degree, sides))
        if degrees[1] > 1:
            return mixed, 3
        if all(isinstance(side, Reference) or degree(side) == 0 for side in sides):
            return mixed, 0 if degrees[0] == 0 else 2 if bool(self._input[slots].any()) else 1
        return mixed, 2
