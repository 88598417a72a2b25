"""What a query asks of a few outputs, put another way: as further outputs that are at least 0 where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import to_host
from falsifier.records import record, replaced
from falsifier.spec.compile import Spec

_FEW = 2  # outputs of a comparison
_MOST = 4096  # different questions that become outputs


@record
class Question:
    """Whether sign * (weights @ y[at]) >= bound for all of some (sign, bound)."""

    at: tuple[int, ...]
    weights: tuple[float, ...]
    floors: tuple[tuple[float, float], ...]


@record
class Asked:
    """Questions, and where they stand: atoms (target, place among its atoms) `[a, 2]` and the question of each `[a]`.

    The atoms of a target that are about the same form are one question: that the largest score is one of the first
    three and that it is one of the last three are easily met together by a tie of two others, but for rounding.
    """

    questions: list[Question]
    atoms: NDArray[np.int64]
    question: NDArray[np.int64]


def asked_about(spec: Spec) -> NDArray[np.bool_]:
    """The outputs `[m]` that linear atoms ask of, one or two at a time. None of them where there are too many."""
    rows, plain = _plain(spec)
    about = np.asarray((rows[plain] != 0).any(axis=0))
    return np.asarray(about & (about.sum() <= _FEW * _MOST))


def _plain(spec: Spec) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Outputs of the forms, weights `[r, m]`, and which forms are a few outputs and nothing else `[r]`."""
    if spec.targets is None:
        return np.zeros((0, spec.m)), np.zeros(0, bool)
    forms = spec.targets.forms
    rows = to_host(forms.outputs)
    few = (rows != 0).sum(axis=1)
    plain = (few > 0) & (few <= _FEW)
    for others in (forms.inputs, forms.coefficients):
        if others is not None:
            plain &= ~(to_host(others) != 0).any(axis=1)
    return rows, plain


def asked_of(spec: Spec, outputs: NDArray[np.bool_]) -> Asked:
    """What linear atoms ask of some of the outputs `[m]` and of nothing else, one or two at a time.

    Nothing where there is too much of it. Of a tree every atom is a question of its own.
    """
    nothing = Asked([], np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
    targets = spec.targets
    if targets is None:
        return nothing
    rows, plain = _plain(spec)
    plain = plain & ~(rows[:, ~outputs] != 0).any(axis=1)
    form, sign, bound, present = (to_host(getattr(targets, name)) for name in ("form", "sign", "bound", "present"))
    atoms = np.argwhere(present & plain[form])
    if not len(atoms):
        return nothing
    together: dict[tuple[int, int], list[int]] = {}
    for number, (target, place) in enumerate(atoms.tolist()):
        group = (target, int(form[target, place])) if spec.tree is None else (number, -1)
        together.setdefault(group, []).append(number)
    numbers: dict[tuple[int, tuple[tuple[float, float], ...]], int] = {}
    question = np.zeros(len(atoms), np.int64)
    for members in together.values():
        at = [tuple(atoms[member].tolist()) for member in members]
        floors = tuple(sorted({(float(sign[a]), float(bound[a])) for a in at}))
        question[members] = numbers.setdefault((int(form[at[0]]), floors), len(numbers))
    if len(numbers) > _MOST:
        return nothing
    questions = []
    for row, floors in numbers:
        about = np.flatnonzero(rows[row])
        questions.append(Question(tuple(about.tolist()), tuple(rows[row, about].tolist()), floors))
    return Asked(questions, atoms, question)


def with_outputs(spec: Spec, asked: Asked, places: Sequence[int | bool | None], strict: Sequence[bool]) -> Spec:
    """The spec with further outputs, as many as in `strict`, in place of what was asked.

    places: for each question the output that is to be at least 0 (more than 0 where `strict`, by further output), or a
    truth value, or None where atoms stay.
    """
    targets = spec.targets
    assert targets is not None
    forms, m, r, more = targets.forms, spec.m, targets.forms.r, len(strict)
    outputs = np.zeros((r + more + 1, m + more), forms.outputs.dtype)  # the last form is 0: always or never enough
    outputs[:r, :m] = forms.outputs
    outputs[np.arange(r, r + more), np.arange(m, m + more)] = 1
    longer = {
        name: None if part is None else np.concatenate([part, np.zeros((more + 1, part.shape[1]), part.dtype)])
        for name, part in (("inputs", forms.inputs), ("coefficients", forms.coefficients))
    }
    monomials = forms.monomials
    if monomials is not None:  # positions in (inputs, outputs, 1): the 1 moves
        last = len(forms.columns) + m
        monomials = np.where(monomials == last, last + more, monomials)
    names = ("form", "sign", "bound", "strict", "present")
    form, sign, bound, strictly, present = (np.array(getattr(targets, name)) for name in names)
    tiny = float(np.finfo(spec.dtype).tiny)
    seen: set[tuple[int, int]] = set()
    for (target, slot), number in zip(asked.atoms.tolist(), asked.question.tolist(), strict=True):
        place, at = places[number], (target, slot)
        if place is None:
            continue
        if spec.tree is None and (target, number) in seen:
            present[at] = False
            continue
        seen.add((target, number))
        if isinstance(place, bool):
            form[at], bound[at] = r + more, -1 if place else 1
        else:
            form[at], bound[at] = r + place - m, tiny if strict[place - m] else 0
        sign[at], strictly[at] = 1, False
    changed = dict(zip(names, (form, sign, bound, strictly, present), strict=True))
    forms = replaced(forms, outputs=outputs, monomials=monomials, **longer)
    return replaced(spec, m=m + more, targets=replaced(targets, forms=forms, **changed))
