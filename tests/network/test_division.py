"""Batches that are divided among threads: the same rows as whole ones, errors, and the session for small batches."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_networks import AFFINE, SMOOTH, read

from falsifier.network import work
from falsifier.network.division import Division
from falsifier.network.lowering import Lowered, lower
from falsifier.network.observation import Watch
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.objective import ObjectiveForm, Reduction

Array = NDArray[Any]

THREADS, B = 3, 41
NETWORKS = {**AFFINE, **SMOOTH}


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks are divided, into parts of four lanes at most."""
    monkeypatch.setattr(work, "_SMALL", 0)
    monkeypatch.setattr(work, "_PART", 1)


def engines(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[OnnxruntimeEngine, OnnxruntimeEngine, Lowered]:
    """One that divides, and one that does not."""
    lowered = lower(NETWORKS[name])
    dividing = OnnxruntimeEngine(lowered, THREADS)
    monkeypatch.setattr(work, "_LARGE", 0)
    whole = OnnxruntimeEngine(lowered, 1)
    assert (dividing.parts, whole.parts) == (THREADS, 0)
    return dividing, whole, lowered


def same(mine: Array, theirs: Array) -> None:
    assert mine.shape == theirs.shape
    assert mine.dtype == theirs.dtype
    tight = 1e-10 if mine.dtype == np.float64 else 1e-4
    np.testing.assert_allclose(mine, theirs, rtol=tight, atol=tight)


@pytest.mark.parametrize("threads", [1, 2, 3, 16, 64])
def test_parts_cover_a_batch_evenly(threads: int) -> None:
    division = Division(threads, 7)
    for lanes in range(1, 300):
        parts = division.parts(lanes)
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(lanes))
        sizes = [part.stop - part.start for part in parts]
        assert max(sizes) - min(sizes) <= 1
        if lanes < min(2 * threads, 16):
            assert len(parts) == 1
        else:
            assert len(parts) % min(threads, lanes // 2) == 0
            assert max(sizes) <= 7
            assert lanes < 2 or min(sizes) >= 2 or threads == 1
    assert division.parts(0) == [slice(0, 0)]
    assert Division(threads).parts(99) == [slice(0, 99)]


def test_results_come_in_the_order_of_the_parts() -> None:
    assert Division(4, 1).each(list(range(100)), lambda part: part**2) == [part**2 for part in range(100)]


def test_all_threads_work_at_once() -> None:
    """Each part waits for another one: alone none would end."""
    meeting = threading.Barrier(3, timeout=60)
    assert len(set(Division(3, 1).each([0, 1, 2], lambda _: (meeting.wait(), threading.get_ident())[1]))) == 3


@pytest.mark.parametrize("at", [0, 17])
def test_an_error_ends_the_others_and_is_raised(at: int) -> None:
    running, begun = set[int](), list[int]()

    def body(part: int) -> None:
        begun.append(part)
        running.add(part)
        try:
            if part == at:
                raise IndexError(f"part {part}")
        finally:
            running.discard(part)

    with pytest.raises(IndexError, match=f"part {at}"):
        Division(3, 1).each(list(range(10_000)), body)
    assert not running
    assert len(begun) < 10_000


def test_without_further_threads_the_caller_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Division(5, 1).each(list(range(9)), str) == [str(i) for i in range(9)]  # five: no other test made its pool


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.usefixtures("divided")
def test_rows_do_not_depend_on_the_division(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs, lowered = engines(name, monkeypatch)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, (B, mine.n)).astype(mine.dtype)
    seed = rng.normal(size=(B, mine.m)).astype(mine.dtype)
    same(mine.outputs(x), theirs.outputs(x))
    tensors = [n for n, v in lowered.tensors.items() if v is not None][-3:]
    for one, other in zip(mine.activations(x, tensors).values(), theirs.activations(x, tensors).values(), strict=True):
        same(one, other)
    for one, other in zip(mine.vjp(x, seed), theirs.vjp(x, seed), strict=True):
        same(one, other)
    for one, other in zip(mine.pull(x, lambda y: y + seed), theirs.pull(x, lambda y: y + seed), strict=True):
        same(one, other)
    for shared in (True, False):
        rows = rng.normal(size=(1 if shared else B, 2, mine.m))
        form = ObjectiveForm(rows, rng.normal(size=(B, 2)), np.ones((B, 2)), Reduction.HINGE)
        for one, other in zip(mine.ascend(x, form), theirs.ascend(x, form), strict=True):
            same(one, other)


@pytest.mark.usefixtures("divided")
def test_windows_and_observed_tensors_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = lower(
        read(
            """net (float[1,3] x) => (float[1,2] y) <float[3,4] v = {1,2,-1,0.5,1,-1,3,1,0,1,1,-2},
            float[4,2] w = {1.0,-1.0,1.0,1.0,2.0,0.0,-1.0,1.0}> {
            a = MatMul (x, v)
            s = Sign (a)
            y = MatMul (s, w)
            }"""
        )
    )
    mine = OnnxruntimeEngine(lowered, THREADS)
    monkeypatch.setattr(work, "_SMALL", np.inf)
    theirs = OnnxruntimeEngine(lowered)
    assert (mine.parts, theirs.parts) == (THREADS, 0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, 3)).astype(np.float32)
    seed, window = rng.normal(size=(B, 2)).astype(np.float32), rng.uniform(0, 2, B).astype(np.float32)
    for one, other in zip(mine.vjp(x, seed, window), theirs.vjp(x, seed, window), strict=True):
        same(one, other)
    pulled = mine.pull(x, lambda _: seed, window)
    same(pulled[1], theirs.vjp(x, seed, window)[1])
    watched = [Watch("s"), Watch("a")]
    for one, other in zip(mine.observer(watched).run(x), theirs.observer(watched).run(x), strict=True):
        same(one, other)


@pytest.mark.usefixtures("divided")
def test_a_few_small_batches_make_no_further_session(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = lower(AFFINE["flatten at axis 0"])
    monkeypatch.setattr(work, "_SESSION", 10 * work.work_per_lane(lowered))
    engine = OnnxruntimeEngine(lowered, THREADS)
    session, lanes = engine._forward, np.ones((5, 2), np.float32)
    first = engine.outputs(lanes)
    engine.outputs(np.ones((B, 2), np.float32))
    engine.outputs(lanes)
    assert session._whole is None
    same(engine.outputs(lanes), first)
    assert session._whole is not None
    same(engine.outputs(lanes), first)


@pytest.mark.usefixtures("divided")
def test_an_engine_that_divides_makes_no_walks() -> None:
    from falsifier.errors import UnsupportedError
    from falsifier.network.walk import Kind, Rule

    engine = OnnxruntimeEngine(lower(AFFINE["flatten at axis 0"]), THREADS)
    with pytest.raises(UnsupportedError, match="one by one"):
        engine.walk_session(Kind(Rule.SIGNED, Reduction.HINGE, False, False))
