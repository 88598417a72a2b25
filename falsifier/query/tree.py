"""The syntax tree of a query: what the text says, and nothing else. No numbers are rounded here, no torch is imported.

A query is satisfiable iff the property that its author had in mind is violated.

Every element of every declared variable has a *slot*: its position when all declared variables are laid out flat,
row-major, network by network, and inside a network inputs, then hidden, then outputs, each in the file's order. For
VNN-LIB 1.0 that is X_0 .. X_{n-1}, Y_0 .. Y_{m-1}. An assignment is therefore one flat vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from falsifier.records import record


class Kind(Enum):
    """What a variable is to its network."""

    INPUT = "input"
    HIDDEN = "hidden"
    OUTPUT = "output"


class Relation(Enum):
    """A comparison. The order of the members is their code in `Table.relation`."""

    LE = "<="
    LT = "<"
    GE = ">="
    GT = ">"
    EQ = "=="
    NE = "!="

    @property
    def code(self) -> int:
        return RELATIONS.index(self)

    @property
    def flipped(self) -> Relation:
        """The relation r' with (a r b) == (b r' a)."""
        return _FLIPPED.get(self, self)


RELATIONS = tuple(Relation)
_FLIPPED = {Relation.LE: Relation.GE, Relation.GE: Relation.LE, Relation.LT: Relation.GT, Relation.GT: Relation.LT}


@record
class Variable:
    """A declared tensor. `dtype` as declared: `real`, `float32`, `int8`, ...; `shape` the declared dimensions, ()
    for a scalar.
    """

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    onnx_name: str | None = None

    @property
    def size(self) -> int:
        size = 1
        for d in self.shape:
            size *= d
        return size


@record
class NetworkDeclaration:
    """One `declare-network`; for 1.0 the single network, named '' and with the variables X and Y."""

    name: str
    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    hidden: tuple[Variable, ...] = ()
    equal_to: str | None = None
    isomorphic_to: str | None = None

    @property
    def variables(self) -> tuple[Variable, ...]:
        return (*self.inputs, *self.hidden, *self.outputs)


@record
class Constant:
    """A number exactly as written."""

    __slots__ = ("text",)

    text: str


@record
class Reference:
    """One element of a variable."""

    __slots__ = ("slot",)

    slot: int


@record
class Negate:
    __slots__ = ("term",)

    term: Term


@record
class Sum:
    __slots__ = ("terms",)

    terms: tuple[Term, ...]


@record
class Difference:
    """head minus each of rest, in 2.0 arithmetic head - (rest0 + rest1 + ..)."""

    __slots__ = ("head", "rest")

    head: Term
    rest: tuple[Term, ...]


@record
class Product:
    __slots__ = ("terms",)

    terms: tuple[Term, ...]


Term: TypeAlias = Constant | Reference | Negate | Sum | Difference | Product


@record
class Compare:
    """left relation right."""

    __slots__ = ("left", "relation", "right")

    relation: Relation
    left: Term
    right: Term


@record
class And:
    __slots__ = ("parts",)

    parts: tuple[Formula, ...]


@record
class Or:
    __slots__ = ("parts",)

    parts: tuple[Formula, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """Many simple comparisons as columns: an `or` over clauses of an `and` over atoms; 10^6 atoms fit where objects
    would not.

    Atom i compares slot `left[i]` by `RELATIONS[relation[i]]` with slot `right[i]`, or, where `right[i]` is -1,
    with a constant: `value[i]` is its nearest float64, and the text as written is `source[start[i]:stop[i]]`. Atoms
    written with the constant first are stored flipped. Clause c holds atoms `clauses[c]:clauses[c + 1]`. A
    conjunction of bounds is a table of one clause.
    """

    left: NDArray[np.int64]
    relation: NDArray[np.int8]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    clauses: NDArray[np.int64]
    source: bytes = field(repr=False)

    def __len__(self) -> int:
        """How many atoms."""
        return len(self.left)

    def constant(self, atom: int) -> str:
        """The constant of an atom as written."""
        return self.source[self.start[atom] : self.stop[atom]].decode()

    def atom(self, i: int) -> Compare:
        """One atom as a node."""
        right: Term = Constant(self.constant(i)) if self.right[i] < 0 else Reference(int(self.right[i]))
        return Compare(RELATIONS[self.relation[i]], Reference(int(self.left[i])), right)

    def take(self, atoms: NDArray[np.int64]) -> Table:
        """Some atoms, as one conjunction."""
        columns = {name: getattr(self, name)[atoms] for name in ("left", "relation", "right", "value", "start", "stop")}
        return Table(**columns, clauses=np.array([0, len(atoms)]), source=self.source)

    def expand(self) -> Or:
        """The same formula as nodes: for tests, printing and conversion, not for large tables."""
        bounds = zip(self.clauses[:-1].tolist(), self.clauses[1:].tolist(), strict=True)
        return Or(tuple(And(tuple(map(self.atom, range(a, b)))) for a, b in bounds))


Formula: TypeAlias = Compare | And | Or | Table


@record
class Query:
    """A parsed VNN-LIB file. `version` is (1, 0) or (2, 0); the query holds iff every formula of `assertions` holds."""

    version: tuple[int, int]
    networks: tuple[NetworkDeclaration, ...]
    assertions: tuple[Formula, ...]
    origin: str = "<text>"  # the file's name, for messages

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All declared variables in slot order."""
        return tuple(v for network in self.networks for v in network.variables)

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return sum(v.size for v in self.variables)

    def offsets(self) -> Iterator[tuple[NetworkDeclaration, Variable, int]]:
        """Every variable with its network and its first slot."""
        at = 0
        for network in self.networks:
            for variable in network.variables:
                yield network, variable, at
                at += variable.size

    def slot_kinds(self) -> NDArray[Any]:
        """Per slot 0 for an input, 1 for a hidden element, 2 for an output: int8 `[slots]`."""
        codes = {Kind.INPUT: 0, Kind.HIDDEN: 1, Kind.OUTPUT: 2}
        return np.repeat(
            np.array([codes[v.kind] for v in self.variables], dtype=np.int8),
            np.array([v.size for v in self.variables], dtype=np.int64),
        )

    def slot_name(self, slot: int) -> str:
        """The name of a slot as the text writes it: `X_3` in 1.0, `X[0,3]` in 2.0."""
        for _, variable, at in self.offsets():
            if slot < at + variable.size:
                if self.version[0] == 1:
                    return f"{variable.name}_{slot - at}"
                if not variable.shape:
                    return variable.name
                index = np.unravel_index(slot - at, variable.shape)
                return f"{variable.name}[{','.join(str(int(i)) for i in index)}]"
        raise IndexError(slot)
