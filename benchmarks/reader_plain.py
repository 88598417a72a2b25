"""A third reader of VNN-LIB, the plainest one: brackets to lists, and the lists evaluated in rational arithmetic.

It shares nothing with the package, takes well-formed texts for granted and knows nothing of columns or types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

_TOKEN = re.compile(r";[^\r\n]*|\"[^\"]*\"|\|[^|]*\||[()]|[^\s()\";|]+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_ELEMENT = re.compile(r"(\w+)(?:\[([\d,]*)\])?")
Tree = Any  # a word, or a list of trees


class OddFormError(ValueError):
    """A form that this reader does not know."""


def forms(text: str) -> list[Tree]:
    """The top-level forms. Raises OddFormError for brackets that do not match."""
    stack: list[list[Tree]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise OddFormError("a bracket closes nothing")
            done = stack.pop()
            stack[-1].append(done)
        elif token[0] not in ';"|':
            stack[-1].append(token)
    if len(stack) > 1:
        raise OddFormError("a bracket is never closed")
    return stack[0]


def holds(text: str, at: Sequence[Fraction]) -> bool:
    """Whether all asserts hold where the slots have these values. Raises OddFormError."""
    found = forms(text)
    slots = _slots(found)
    asserted = [part for form in found if form[:1] == ["assert"] for part in _only(form[1:])]
    answers = [_formula(part, slots, at) for part in asserted]  # all: odd forms behind a false one count too
    return all(answers)


def _only(parts: list[Tree]) -> list[Tree]:
    if len(parts) != 1:
        raise OddFormError(f"an assert of {len(parts)} forms")
    return parts


def _slots(found: list[Tree]) -> Mapping[str, tuple[int, tuple[int, ...] | None]]:
    """The first slot and the shape of every name."""
    declared = [form[1] for form in found if form[:1] in (["declare-const"], ["declare-fun"])]
    if declared:
        ordered = sorted(declared, key=lambda name: (name[0], int(name[2:])))
        return {name: (i, None) for i, name in enumerate(ordered)}
    slots: dict[str, tuple[int, tuple[int, ...] | None]] = {}
    at = 0
    for network in (form for form in found if form[:1] == ["declare-network"]):
        parts = [part for part in network[2:] if isinstance(part, list)]
        kinds = ("declare-input", "declare-hidden", "declare-output")
        if any(part[:1] not in ([k] for k in (*kinds, "equal-to", "isomorphic-to")) for part in parts):
            raise OddFormError("a part of a network that is none")
        for kind in kinds:
            for part in parts:
                if part[:1] != [kind]:
                    continue
                shape = tuple(int(d) for d in "".join(part[3:]).strip("[]").split(",") if d)
                slots[part[1]] = at, shape
                size = 1
                for d in shape:
                    size *= d
                at += size
    return slots


def _formula(tree: Tree, slots: Mapping[str, Any], at: Sequence[Fraction]) -> bool:
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
        raise OddFormError(f"no formula: {tree}")
    head, parts = tree[0], tree[1:]
    if head in ("and", "or"):
        inner = [_formula(part, slots, at) for part in parts]
        return all(inner) if head == "and" else any(inner)
    if len(parts) != 2:
        raise OddFormError(f"{head} of {len(parts)}")
    a, b = (_term(part, slots, at) for part in parts)
    answers = {"<=": a <= b, "<": a < b, ">=": a >= b, ">": a > b, "=": a == b, "==": a == b, "!=": a != b}
    if head not in answers:
        raise OddFormError(f"no relation: {head}")
    return answers[head]


def _term(tree: Tree, slots: Mapping[str, Any], at: Sequence[Fraction]) -> Fraction:
    if isinstance(tree, str):
        return Fraction(tree) if _NUMBER.fullmatch(tree) else at[_slot(tree, slots)]
    if not tree or not isinstance(tree[0], str) or len(tree) < 2:
        raise OddFormError(f"no term: {tree}")
    values = [_term(part, slots, at) for part in tree[1:]]
    if tree[0] == "-":
        return -values[0] if len(values) == 1 else values[0] - sum(values[1:], Fraction(0))
    if tree[0] == "+":
        return sum(values, Fraction(0))
    if tree[0] != "*":
        raise OddFormError(f"no operation: {tree[0]}")
    out = Fraction(1)
    for value in values:
        out *= value
    return out


def _slot(name: str, slots: Mapping[str, Any]) -> int:
    if name in slots and slots[name][1] in (None, ()):
        return int(slots[name][0])
    found = _ELEMENT.fullmatch(name)
    if not found or found[1] not in slots or found[2] is None:
        raise OddFormError(f"no element: {name}")
    first, shape = slots[found[1]]
    index = [int(i) for i in found[2].split(",") if i]
    if shape is None or len(index) != len(shape) or any(i >= d for i, d in zip(index, shape, strict=True)):
        raise OddFormError(f"no element: {name}")
    flat = 0
    for i, d in zip(index, shape, strict=True):
        flat = flat * d + i
    return int(first) + flat
