"""Stacking: the targets of many questions about one network side by side, so that their lanes share every batch.

A question is first brought to the form of a `Part`: boxes over all flat inputs, pinned ones having equal bounds. The
stack keeps boxes and forms that occur more than once a single time; free is what some part leaves free, or what parts
pin at different values.

Axes: u box, n flat input, t target, k atom, r form, m flat output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.spec.compile import Spec
from falsifier.spec.domain import Domain, Rounds
from falsifier.spec.margin import Rounding
from falsifier.spec.targets import Forms, Targets

MOST_TARGETS = 1024  # of a question; one with more fills batches alone
MOST_CELLS = 1 << 24  # of the boxes of a stack
_MOST_WEIGHTS = 1 << 22  # of the forms of a question
_WIDENED = 4  # times the free inputs of a question that it may get from the others


@dataclass(frozen=True)
class Part:
    """One question: lower, upper `[u, n]` in the network's type, box `[t]`; integer, half and single `[n]` as in
    `Domain`, the other columns as in `Targets`, their forms linear.
    """

    lower: NDArray[Any]
    upper: NDArray[Any]
    box: NDArray[np.int64]
    forms: Forms
    form: NDArray[np.int64]
    sign: NDArray[Any]
    bound: NDArray[Any]
    strict: NDArray[np.bool_]
    present: NDArray[np.bool_]
    disjunct: NDArray[np.int64]
    exact: NDArray[np.bool_]
    integer: NDArray[np.bool_]
    half: NDArray[np.bool_]
    single: NDArray[np.bool_]
    disjuncts: int

    @property
    def t(self) -> int:
        return len(self.form)

    @property
    def free(self) -> int:
        """How many inputs are free in some box."""
        return int((self.lower < self.upper).any(axis=0).sum())


def obstacle(spec: Spec) -> str | None:
    """Why a compiled query cannot be stacked; None where it can."""
    domain, targets = spec.domain, spec.targets
    if domain is None or targets is None:
        return "it is decided"
    if spec.tree is not None:
        return "its disjuncts are kept as a tree"
    if not targets.forms.linear:
        return "it compares polynomials"
    if domain.ties or domain.combination is not None or domain.band is not None or domain.lattice is not None:
        return "equalities tie its inputs"
    if domain.f == 0:
        return "every input is fixed"
    if targets.t > MOST_TARGETS or targets.forms.outputs.size > _MOST_WEIGHTS:
        return "it fills batches alone"
    if len(targets.lower) * spec.n > MOST_CELLS // 4:
        return "it is too large"
    return None


def part_of(spec: Spec) -> Part:
    """A compiled query as a part. Raises ValueError where `obstacle` has a reason."""
    why, domain, targets = obstacle(spec), spec.domain, spec.targets
    if domain is None or targets is None or why is not None:
        raise ValueError(f"the query cannot be stacked: {why}")
    lower, upper = (np.repeat(domain.base[None, :], len(targets.lower), axis=0) for _ in range(2))
    lower[:, domain.free], upper[:, domain.free] = targets.lower, targets.upper
    kinds = np.zeros((3, spec.n), dtype=bool)
    kinds[:, domain.free] = domain.integer, domain.half, domain.single
    box = np.arange(targets.t) if len(targets.lower) > 1 else np.zeros(targets.t, np.int64)
    columns = {name: getattr(targets, name) for name in ("form", "sign", "bound", "strict", "present")}
    return Part(
        lower=lower,
        upper=upper,
        box=box,
        forms=targets.forms,
        disjunct=targets.disjunct,
        exact=targets.exact,
        integer=kinds[0],
        half=kinds[1],
        single=kinds[2],
        disjuncts=spec.disjuncts,
        **columns,
    )


def stacked(parts: Sequence[Part], m: int, rounding: Rounding) -> Spec:
    """One spec of all parts' targets, in order. `m`: flat outputs. Raises ValueError without parts."""
    if not parts:
        raise ValueError("nothing to stack")
    boxes, box = _distinct_boxes(parts)
    lower, upper = (np.concatenate(sides) for sides in boxes)
    kinds = ([getattr(part, name) for part in parts] for name in ("integer", "half", "single"))
    integer, half, single = (np.logical_or.reduce(kind) for kind in kinds)
    moves = (lower != upper).any(axis=0) | (lower != lower[:1]).any(axis=0)
    free = np.flatnonzero(moves)
    forms, form = _distinct_forms(parts, m)
    dtype = lower.dtype
    k = max(part.form.shape[1] for part in parts)

    def column(name: str, fill: Any, kind: Any) -> NDArray[Any]:
        return _padded([getattr(part, name) for part in parts], k, fill, kind)

    targets = Targets(
        lower=np.ascontiguousarray(lower[:, free]),
        upper=np.ascontiguousarray(upper[:, free]),
        forms=forms,
        form=_padded(form, k, 0, np.int64),
        sign=column("sign", 1, dtype),
        bound=column("bound", 0, dtype),
        strict=column("strict", False, np.bool_),
        present=column("present", False, np.bool_),
        disjunct=np.concatenate([part.disjunct for part in parts]),
        exact=np.concatenate([part.exact for part in parts]),
        box=box,
    )
    domain = Domain(
        n=lower.shape[1],
        free=free,
        base=np.where(moves, 0, lower[0]).astype(dtype),
        integer=integer[free],
        half=half[free],
        single=single[free],
        rounds=Rounds(bool(integer[free].any()), bool(half[free].any()), bool(single[free].any())),
    )
    disjuncts = sum(part.disjuncts for part in parts)
    return Spec(lower.shape[1], m, np.dtype(dtype), rounding, disjuncts, domain=domain, targets=targets)


def widened(spec: Spec, parts: Sequence[Part]) -> bool:
    """Whether the stack moves many inputs that no part leaves free: then its lanes are mostly idle coordinates."""
    return spec.domain is None or spec.domain.f > _WIDENED * max(part.free for part in parts)


@dataclass
class _Rows:
    """Distinct forms met so far: key to number, and their weights."""

    numbers: dict[tuple[bytes, bytes, bytes], int] = field(default_factory=dict)
    outputs: list[NDArray[Any]] = field(default_factory=list)
    inputs: list[tuple[NDArray[np.int64], NDArray[Any]]] = field(default_factory=list)  # columns and weights

    def take(self, forms: Forms) -> NDArray[np.int64]:
        """The numbers of forms `[r]`, new ones added."""
        numbers = np.empty(forms.r, dtype=np.int64)
        for row in range(forms.r):
            weights = np.zeros(0) if forms.inputs is None else forms.inputs[row]
            used = np.flatnonzero(weights)
            columns, weights = forms.columns[used], weights[used]
            key = (forms.outputs[row].tobytes(), columns.tobytes(), weights.tobytes())
            numbers[row] = self.numbers.setdefault(key, len(self.outputs))
            if numbers[row] == len(self.outputs):
                self.outputs.append(forms.outputs[row])
                self.inputs.append((columns, weights))
        return numbers


def _distinct_forms(parts: Sequence[Part], m: int) -> tuple[Forms, list[NDArray[np.int64]]]:
    """Forms that occur in some part, once each, and every part's `form` column over them."""
    rows = _Rows()
    form = [rows.take(part.forms)[part.form] for part in parts]
    outputs = np.stack(rows.outputs) if m else np.zeros((len(rows.outputs), 0), parts[0].lower.dtype)
    columns = np.unique(np.concatenate([columns for columns, _ in rows.inputs]))
    if not columns.size:
        return Forms(outputs, columns), form
    inputs = np.zeros((len(outputs), columns.size), outputs.dtype)
    for row, (used, weights) in enumerate(rows.inputs):
        inputs[row, np.searchsorted(columns, used)] = weights
    return Forms(outputs, columns, inputs), form


def _distinct_boxes(parts: Sequence[Part]) -> tuple[tuple[list[NDArray[Any]], list[NDArray[Any]]], NDArray[np.int64]]:
    """The boxes of all parts, lower and upper sides `[1, n]` each, without repetitions, and every target's number."""
    numbers: dict[bytes, int] = {}
    sides: tuple[list[NDArray[Any]], list[NDArray[Any]]] = ([], [])
    box = []
    for part in parts:
        own = np.empty(len(part.lower), dtype=np.int64)
        for i in range(len(part.lower)):
            own[i] = numbers.setdefault(_digest(part.lower[i], part.upper[i]), len(sides[0]))
            if own[i] == len(sides[0]):
                sides[0].append(part.lower[i : i + 1])
                sides[1].append(part.upper[i : i + 1])
        box.append(own[part.box])
    return sides, np.concatenate(box)


def _digest(lower: NDArray[Any], upper: NDArray[Any]) -> bytes:
    from hashlib import blake2b

    return blake2b(lower.tobytes() + upper.tobytes(), digest_size=16).digest()


def _padded(columns: Sequence[NDArray[Any]], k: int, fill: Any, kind: Any) -> NDArray[Any]:
    """Columns `[t_i, k_i]` one below the other, `[t, k]`."""
    out = np.full((sum(map(len, columns)), k), fill, dtype=kind)
    at = 0
    for column in columns:
        out[at : at + len(column), : column.shape[1]] = column
        at += len(column)
    return out
