"""What the array API lacks, the same for numpy arrays and torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falsifier import arrays
from falsifier.arrays import Rng


def identity(x: Any) -> Any:
    return x


def tensor(x: Any) -> Any:
    import torch

    return torch.from_numpy(np.array(x))


def back(x: Any) -> Any:
    return arrays.to_host(x)


both = pytest.mark.parametrize("kind", [identity, tensor])
Kind = Callable[[Any], Any]
floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@both
def test_top_k_puts_nan_last(kind: Kind) -> None:
    x = kind(np.array([[1.0, np.nan, 5, 3], [np.nan, np.nan, 2, -np.inf]]))
    values, index = arrays.top_k(x, 2)
    assert back(values)[0].tolist() == [5, 3]
    assert back(index)[0].tolist() == [2, 3]
    assert back(values)[1, 0] == 2
    values, index = arrays.top_k(x[0], 9, largest=False)
    assert back(values)[:3].tolist() == [1, 3, 5]
    assert back(index).tolist() == [0, 3, 2, 1]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.integers(1, 40))
def test_top_k_is_a_sorted_prefix(items: list[int], k: int) -> None:
    x = np.array(items, np.float64)
    values, index = arrays.top_k(x, k)
    assert values.tolist() == sorted(items, reverse=True)[:k]
    assert (x[index] == values).all()
    assert len(set(index.tolist())) == len(index)


@both
@given(floats32, st.integers(-3, 3))
def test_steps_are_next_representable_values(kind: Kind, start: float, count: int) -> None:
    x = np.array([start], np.float32)
    moved = x
    with np.errstate(over="ignore"):
        for _ in range(abs(count)):
            moved = np.nextafter(moved, np.float32(np.inf if count > 0 else -np.inf))
    finite = np.clip(moved, -np.finfo(np.float32).max, np.finfo(np.float32).max)
    assert back(arrays.step(kind(x), count)).tolist() == finite.tolist()
    steps = kind(np.array([count]))
    assert back(arrays.step(kind(x), steps)).tolist() == finite.tolist()


@both
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_huge_steps_stop_at_the_largest_value(kind: Kind, dtype: Any) -> None:
    top = np.finfo(dtype).max
    for start, direction in ((0, 1), (0, -1), (top / 2, 1), (-top / 2, -1), (top, 1), (-top, -1)):
        assert back(arrays.step(kind(np.array([start], dtype)), direction * (2**63 - 1))).item() == direction * top
    same = np.array([np.nan, np.inf, -np.inf], dtype)
    assert np.array_equal(back(arrays.step(kind(same), 5)), same, equal_nan=True)


@both
def test_ordinals_order_like_values(kind: Kind) -> None:
    x = np.array([-np.inf, -1, -1e-40, -0.0, 0.0, 1e-40, 1, np.inf], np.float32)
    ordinal = back(arrays.ordinal(kind(x)))
    assert (np.diff(ordinal) >= 0).all()
    assert ordinal[3] == ordinal[4] == 0
    assert back(arrays.from_ordinal(arrays.ordinal(kind(x)), kind(x))).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hashes_tell_rows_apart_and_agree(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 7)).astype(dtype)
    x[1] = x[0]
    x[3] = x[2]
    x[3, 4] = np.nextafter(x[3, 4], dtype(9))
    x[5] = x[4][::-1]
    hashes = back(arrays.row_hash(x))
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 1999
    assert np.array_equal(hashes, back(arrays.row_hash(tensor(x))))
    assert np.array_equal(hashes, back(arrays.row_hash(x.reshape(2000, 7, 1))))
    few = np.stack(np.meshgrid(np.arange(64), np.arange(64)), -1).reshape(-1, 2).astype(dtype)
    assert len(set(arrays.row_hash(few).tolist())) == 4096


@both
def test_columns_add_up_where_they_repeat(kind: Kind) -> None:
    x = kind(np.zeros((2, 3)))
    out = arrays.add_columns(x, kind(np.array([1, 1, 2])), kind(np.array([[1.0, 2, 3], [4, 5, 6]])))
    assert back(out).tolist() == [[0, 3, 3], [0, 9, 6]]


@both
def test_rows_and_columns(kind: Kind) -> None:
    x = kind(np.arange(12.0).reshape(3, 4))
    assert back(arrays.take_columns(x, kind(np.array([3, 0])))).tolist() == [[3, 0], [7, 4], [11, 8]]
    assert back(arrays.gather(x, kind(np.array([[0], [1], [3]])))).tolist() == [[0], [5], [11]]
    assert back(arrays.take_rows(x, kind(np.array([2, 2])))).tolist() == [[8, 9, 10, 11]] * 2
    assert back(arrays.put_rows(x, kind(np.array([1])), kind(np.zeros((1, 4)))))[1].tolist() == [0, 0, 0, 0]
    assert back(x)[1].tolist() == [4, 5, 6, 7]
    assert back(arrays.nan_to(kind(np.array([1, np.nan])), -3)).tolist() == [1, -3]


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_draws_have_the_kind_and_shape_asked_for(kind: Kind, dtype: Any) -> None:
    like = kind(np.zeros(0, dtype))
    rng = Rng(3)
    for draw in (rng.uniform((2000, 3), like), rng.normal((2000, 3), like), rng.signs((2000, 3), like)):
        assert type(draw) is type(like)
        assert draw.dtype == like.dtype
        assert tuple(draw.shape) == (2000, 3)
    uniform, normal, signs = (back(f((4000,), like)) for f in (rng.uniform, rng.normal, rng.signs))
    assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() < 1
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert set(signs.tolist()) == {-1, 1}
    assert abs(signs.mean()) < 0.1
    assert set(back(rng.integers(2, 5, (200,), like)).tolist()) == {2, 3, 4}
    assert sorted(back(rng.permutation(9, like)).tolist()) == list(range(9))


@both
def test_choice_follows_the_weights(kind: Kind) -> None:
    weights = np.array([0, 1, 0, 3, 0], np.float32)
    drawn = back(Rng(0).choice(kind(weights), 4000))
    counts = np.bincount(drawn, minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert abs(counts[3] / 4000 - 0.75) < 0.03
    assert len(set(back(Rng(0).choice(kind(np.zeros(4)), 100)).tolist())) == 4


@both
def test_one_seed_one_stream(kind: Kind) -> None:
    like = kind(np.zeros(0))
    first, again, other = (back(Rng(seed).uniform((8,), like)).tolist() for seed in (7, 7, 8))
    assert first == again != other
    rng, twin = Rng(7), Rng(7)
    assert back(rng.spawn().uniform((8,), like)).tolist() == back(twin.spawn().uniform((8,), like)).tolist() != first
    assert back(rng.uniform((8,), like)).tolist() != back(rng.spawn().uniform((8,), like)).tolist()


def test_the_device_of_the_constructor_is_the_default() -> None:
    import torch

    assert isinstance(Rng(0).uniform((2,)), np.ndarray)
    assert isinstance(Rng(0, "cpu").uniform((2,)), torch.Tensor)
    assert isinstance(Rng(0, "cpu").uniform((2,), np.zeros(0)), np.ndarray)


def test_moving_between_host_and_device() -> None:
    like = tensor(np.zeros(0, np.float32))
    moved = arrays.as_like(np.array([1, 2]), like, np.float32)
    assert moved.dtype == like.dtype
    assert arrays.numpy_dtype(moved) == np.float32
    assert arrays.to_float64(moved).dtype == np.float64
    assert arrays.as_dtype_of(tensor(np.array([True])), like).dtype == like.dtype


def test_out_of_memory_is_recognised() -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    assert arrays.is_out_of_memory(MemoryError())
    assert arrays.is_out_of_memory(OutOfMemoryError())
    assert arrays.is_out_of_memory(RuntimeError("Failed to allocate memory for requested buffer of size 8"))
    assert not arrays.is_out_of_memory(RuntimeError("shapes differ"))


@both
@pytest.mark.parametrize("row", [[1.0, -2.0], [1.0, np.nan], [np.inf, 3e38], [-np.inf, np.nan], [3e38, -3e38]])
def test_what_is_not_finite_becomes_zero(kind: Kind, row: list[float]) -> None:
    x = np.array([row, [0.0, 5.0]], np.float32)
    found = back(arrays.finite(kind(x)))
    assert found.dtype == np.float32
    assert found.tolist() == np.where(np.isfinite(x), x, 0).tolist()
