"""The engine benchmark compares like with like, and its stopwatch counts every second once."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch", reason="the hand-written side is torch")

from engine import Batch, agreement, engine_side, engines, hand_written  # noqa: E402
from engine_loop import Stopwatch, query_of  # noqa: E402
from engine_networks import CASES, build  # noqa: E402

from falsifier.network.from_torch import export  # noqa: E402
from falsifier.network.load import load  # noqa: E402
from falsifier.query import parse  # noqa: E402


@pytest.mark.parametrize("name", ["small_mlp", "vit"])
def test_all_sides_compute_the_same_gradient(name: str) -> None:
    case = CASES[name]
    module = build(case, 0)
    network = load(export(module, torch.zeros(1, *case.shape)))
    data = Batch.drawn(4, network.lowered.n, network.lowered.m, 0)
    sides = [hand_written(module, case, data, "cpu"), *(engine_side(e, data) for e in engines(network, 1, "cpu"))]
    assert agreement(sides) == {"onnxruntime": 1.0, "torch": 1.0}


class _Nested:
    def outer(self) -> float:
        return self.inner() + 1

    def inner(self) -> float:
        return time.perf_counter()


def test_nested_calls_are_counted_once() -> None:
    owner = _Nested()
    watch = Stopwatch(owner, ("outer", "inner"))
    owner.outer()
    owner.inner()
    assert watch.calls == 2


def test_the_query_has_a_target_per_further_output() -> None:
    query = parse(query_of(3, 4).encode())
    assert query.slots == 7
