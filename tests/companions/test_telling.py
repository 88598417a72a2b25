"""What companions say, as bytes: whole or in pieces, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falsifier.companions.telling import Ear, Kind, RubbishError, Task, Told

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def told(kind: Kind, point: list[float], target: int = 2) -> Told:
    return Told(kind, target, 12345678901, "nearest/dilated-hopping", np.array(point))


@given(st.lists(st.tuples(FINITE, FINITE), max_size=4), st.integers(1, 60))
def test_records_arrive_however_they_are_cut(points: list[tuple[float, float]], size: int) -> None:
    said = [told(Kind.STANDS, []), *(told(Kind.FOUND, list(point)) for point in points), told(Kind.STANDS, [])]
    data = b"".join(each.packed() for each in said)
    ear = Ear(2, 3)
    heard = [one for at in range(0, len(data), size) for one in ear.hear(data[at : at + size])]
    assert [(h.kind, h.target, h.evaluations, h.point.tolist()) for h in heard] == [
        (s.kind, s.target, s.evaluations, s.point.tolist()) for s in said
    ]
    assert {h.stage for h in heard} == {"nearest/dilated-hopping"}


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 128,
        told(Kind.FOUND, [0.0]).packed(),
        told(Kind.FOUND, [0.0, 1.0, 2.0]).packed(),
        told(Kind.FOUND, [0.0, 1.0], target=3).packed(),
        told(Kind.STANDS, [0.0, 1.0]).packed(),
        told(Kind.FOUND, [0.0, float("inf")]).packed(),
        told(Kind.HELD, [float("nan"), 0.0]).packed(),
        told(Kind.STANDS, []).packed().replace(b"nearest", b"\x00\x1bn\xffrest"),
        b"FCW1\x07" + told(Kind.STANDS, []).packed()[5:],
    ],
)
def test_what_is_no_record_is_rubbish(data: bytes) -> None:
    with pytest.raises(RubbishError):
        list(Ear(2, 3).hear(data))


@given(st.binary(max_size=400))
def test_any_bytes_are_records_or_rubbish(data: bytes) -> None:
    try:
        heard = list(Ear(2, 3).hear(data))
    except RubbishError:
        return
    assert all(one.point.size in (0, 2) for one in heard)


def test_a_task_survives_as_one_line() -> None:
    task = Task([(None, "a b.onnx"), ("f", "c\n\udcff.onnx")], "q.vnnlib", "exact", "restarts", None, 1 << 90, 12.5)
    line = task.packed()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)
    assert Task.unpacked(line) == task
