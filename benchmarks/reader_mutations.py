"""Mutations of VNN-LIB texts that know its brackets and words, and of ONNX models that know their messages."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(rb'\(|\)|;[^\n]*|"[^"]*"|[^\s()";]+|\s+')
_NUMBER = re.compile(rb"[-+]?\.?\d[\d.eE+-]*$")

NUMBERS = [
    *(b"0 -0 -0.0 1 -1 0.1 .5 1. +2 00.5 1e3 1E-3 1e400 1e-400 -1e400 9007199254740993 0.30000000000000004".split()),
    *(b"3.4028236e38 1e-45 1e-46 4.9e-324 2e-324 1.7976931348623157e308 1.7976931348623159e308".split()),
    *(b"18446744073709551616 0x10 inf -inf nan NaN 1_0 1e 1e+ --1 1.2.3 - + . e5 1/3 \xd9\xa1 1d0 1f".split()),
    b"0." + b"3" * 500,
    b"1" * 500,
    b"1" + b"0" * 400 + b".0",
    b"0." + b"0" * 400 + b"1",
]
WORDS = [
    *(b"and or not + - * / <= < >= > = == != => ite let assert forall true false Real Int Bool () xor".split()),
    *(b"X_0 X_1 X_2 Y_0 Y_1 X_00 X_-1 X_99999999 X_999999999 x_0 Y_ X[0] X[0,0] X[1] Y[0] X[-1] X[ X[0 X[]".split()),
    *(b"declare-const declare-fun declare-network declare-input declare-output declare-hidden equal-to".split()),
    *(b"isomorphic-to vnnlib-version <2.0> <1.0> <2.1> <2.> real float32 float16 int8 [1] [2] [] [0] [1,2]".split()),
    b"[99999999999]",
    b"; comment",
    b"|X_0|",
    b'"name"',
    b"\0",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"\r\n",
    b"(declare-const X_2 Real)",
    b"(assert (<= X_0 X_1))",
    b"(assert (= X_0 X_1))",
    b"(assert (!= X[0] X[1]))",
    b"(assert (or (and (<= X_0 0.5) (>= Y_0 0.25)) (>= X_0 0.5)))",
    b"(assert (<= (+ X_0 (* 2.0 X_1) (- Y_0)) (- Y_0 X_1 0.5)))",
    b"(assert (> (* X[0] X[1]) (+ Y[0] -0.5)))",
    b"(set-logic QF_LRA)",
    b"(check-sat)",
]

SEEDS = [
    b"(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(declare-const Y_1 Real)\n"
    b"(assert (>= X_0 -1))\n(assert (<= X_0 1))\n(assert (>= X_1 -0.5))\n(assert (<= X_1 0.75))\n" + goal
    for goal in (
        b"(assert (>= Y_0 0.25))\n",
        b"(assert (or (and (<= Y_0 Y_1) (>= X_0 0)) (and (>= Y_1 0.5) (<= X_1 0))))\n",
        b"(assert (<= (+ (* 2 X_0) (- Y_0 Y_1)) (* -1.5 X_1)))\n(assert (< Y_0 1e-1))\n",
        b"(assert (= X_1 (* 0.5 X_0)))\n(assert (or (> Y_0 0) (< Y_1 0)))\n(assert (and (<= Y_1 Y_0)))\n",
        b"(assert (or (and (>= X_0 0) (<= X_0 0.5)) (and (>= X_0 0.75) (<= X_0 1))))\n(assert (<= 0.5 Y_0))\n",
    )
] + [
    b"(declare-fun X_0 () Real)\n(declare-fun Y_0 () Real)\n(assert (and (>= X_0 0.1) (<= X_0 .2)))(assert (<= Y_0 0))",
    *(
        b"(vnnlib-version <2.0>)\n(declare-network N\n (declare-input X real [1,2])\n (declare-output Y real [2]))\n"
        b"(assert (and (>= X[0,0] -1.0) (<= X[0,0] 1.0)))\n(assert (and (>= X[0,1] -0.5) (<= X[0,1] 0.75)))\n" + goal
        for goal in (
            b"(assert (> Y[0] 0.25))\n",
            b"(assert (or (and (<= Y[0] Y[1]) (!= X[0,0] 0.0)) (== Y[1] 0.5)))\n",
            b"(assert (<= (+ (* 2.0 X[0,0] X[0,1]) (- Y[0] Y[1])) (- 1.5)))\n",
            b"(assert (== X[0,1] (* 0.5 X[0,0])))\n(assert (or (> Y[0] 0.0) (< Y[1] 0.0)))\n",
        )
    ),
    b"(vnnlib-version <2.0>)\n(declare-network f (declare-input X float32 [1,2]) (declare-output Y float32 [1]))\n"
    b"(declare-network g (equal-to f) (declare-input V float32 [1,2]) (declare-output W float32 [1]))\n"
    b"(assert (and (>= X[0,0] 0.0) (<= X[0,0] 1.0) (>= X[0,1] 0.0) (<= X[0,1] 1.0)))\n"
    b"(assert (and (== X[0,0] V[0,0]) (<= X[0,1] V[0,1]) (<= V[0,1] 1.0)))\n(assert (< W[0] Y[0]))\n",
]


def mutated_text(text: bytes, rng: random.Random, other: bytes) -> bytes:
    """A text after a few changes; `other`: one that pieces may be taken from."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        if not tokens:
            tokens = list(_TOKEN.findall(other)) or [b"("]
        tokens = rng.choice(_CHANGES)(tokens, rng, other)
    return b"".join(tokens)


def _form(tokens: list[bytes], rng: random.Random) -> tuple[int, int]:
    """The span of a bracketed form that begins somewhere, or of one token."""
    opens = [i for i, token in enumerate(tokens) if token == b"("]
    if not opens or rng.random() < 0.2:
        at = rng.randrange(len(tokens))
        return at, at + 1
    start = rng.choice(opens)
    depth = 0
    for stop in range(start, len(tokens)):
        depth += (tokens[stop] == b"(") - (tokens[stop] == b")")
        if depth == 0:
            return start, stop + 1
    return start, len(tokens)


def _number(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    places = [i for i, token in enumerate(tokens) if _NUMBER.match(token)]
    if not places:
        return _word(tokens, rng, other)
    at = rng.choice(places)
    same = rng.choice(places)
    return [*tokens[:at], tokens[same] if rng.random() < 0.3 else rng.choice(NUMBERS), *tokens[at + 1 :]]


def _word(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    at = rng.randrange(len(tokens))
    return [*tokens[:at], rng.choice(WORDS), *tokens[at + (rng.random() < 0.7) :]]


def _remove(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    a, b = _form(tokens, rng)
    return tokens[:a] + tokens[b:]


def _double(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    a, b = _form(tokens, rng)
    at = rng.choice((b, rng.randrange(len(tokens) + 1)))
    return tokens[:at] + tokens[a:b] * rng.choice((1, 1, 2, 5)) + tokens[at:]


def _swap(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    a, b = _form(tokens, rng)
    c, d = _form(tokens, rng)
    if b > c:
        return _replace(tokens, rng, other)
    return tokens[:a] + tokens[c:d] + tokens[b:c] + tokens[a:b] + tokens[d:]


def _replace(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    a, b = _form(tokens, rng)
    source = list(_TOKEN.findall(other)) if rng.random() < 0.5 else tokens
    if not source:
        return tokens
    c, d = _form(source, rng)
    return tokens[:a] + source[c:d] + tokens[b:]


def _wrap(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    a, b = _form(tokens, rng)
    head = rng.choice((b"(and ", b"(or ", b"(- ", b"(+ ", b"(* 2.0 ", b"(* ", b"(", b"(not ", b"(assert "))
    depth = rng.choice((1, 1, 1, 2, 12))
    return tokens[:a] + [head] * depth + tokens[a:b] + [b")"] * depth + tokens[b:]


def _bytes(tokens: list[bytes], rng: random.Random, other: bytes) -> list[bytes]:
    data = bytearray(b"".join(tokens))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = bytes(
            rng.choice((rng.randrange(256), 40, 41, 32)) for _ in range(rng.randrange(3))
        )
    return _TOKEN.findall(bytes(data))


_CHANGES: list[Callable[[list[bytes], random.Random, bytes], list[bytes]]] = [
    _number, _number, _number, _word, _word, _remove, _double, _swap, _swap, _replace, _replace, _wrap, _wrap, _bytes,
]  # fmt: skip


def mutated_model(data: bytes, rng: random.Random, names: list[str]) -> bytes:
    """A model after a few changes of its fields, or of its bytes; `names`: of operators."""
    import onnx
    from google.protobuf.message import DecodeError

    if rng.random() < 0.2:
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(changed) + 1)
            changed[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
        return bytes(changed)
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data[: rng.randrange(len(data) + 1)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        message = _inner(model, rng)
        if message is not None:
            _change(message, rng, names)
    return bytes(model.SerializeToString())


def _inner(message: Any, rng: random.Random) -> Any:
    """A message somewhere inside of one."""
    for _ in range(12):
        parts = [
            part
            for field, value in message.ListFields()
            if field.type == field.TYPE_MESSAGE
            for part in (value if hasattr(value, "append") or hasattr(value, "add") else (value,))
        ]
        if not parts or rng.random() < 0.15:
            return message
        message = rng.choice(parts)
    return message


_INTEGERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 10**12)


def _change(message: Any, rng: random.Random, names: list[str]) -> None:
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    try:
        if hasattr(value, "append") or hasattr(value, "add"):
            _change_list(value, rng)
        elif field.name == "op_type":
            message.op_type = rng.choice(names)
        elif rng.random() < 0.2:
            message.ClearField(field.name)
        elif isinstance(value, bytes):
            message.__setattr__(field.name, value[: rng.randrange(len(value) + 1)] + rng.randbytes(rng.randrange(5)))
        elif isinstance(value, str):
            message.__setattr__(field.name, rng.choice(("", "X", "Y", "W", "t0", value * 2, "n/\u00e9")))
        elif isinstance(value, (int, float)):
            message.__setattr__(field.name, rng.choice((*_INTEGERS, float("nan"), float("inf"), 1e-40)))
    except (TypeError, ValueError):  # out of the field's range
        return


def _change_list(value: Any, rng: random.Random) -> None:
    if not len(value):
        return
    at = rng.randrange(len(value))
    kind = rng.random()
    if kind < 0.25:
        del value[at]
    elif kind < 0.5 and not hasattr(value[at], "CopyFrom"):
        value.append(value[at])
    elif kind < 0.5:
        value.add().CopyFrom(value[at])
    elif isinstance(value[at], int):
        value[at] = rng.choice(_INTEGERS)
    elif isinstance(value[at], float):
        value[at] = rng.choice((float("nan"), float("inf"), -1.0, 0.0, 1e38, 1e-45))
    elif isinstance(value[at], str):
        value[at] = rng.choice(("", "X", "Y", "W", "t0", value[rng.randrange(len(value))]))
