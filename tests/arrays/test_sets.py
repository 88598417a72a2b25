"""Keys, sets and counts, the same for numpy arrays and torch tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from falsifier.arrays import first_of, is_in, pattern_hash, place_in, put_add, put_max, row_hash, to_host

keys = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(keys)
def test_first_of_marks_the_first_of_each(items: list[int]) -> None:
    expected = [item not in items[:i] for i, item in enumerate(items)]
    host = np.array(items)
    assert first_of(host).tolist() == expected
    assert first_of(torch.from_numpy(host)).tolist() == expected


@given(keys, st.lists(st.integers(-3, 3), max_size=6))
def test_is_in_is_membership(items: list[int], known: list[int]) -> None:
    expected = [item in known for item in items]
    a, b = np.array(items), np.array(known, dtype=np.int64)
    assert is_in(a, b).tolist() == expected
    assert is_in(torch.from_numpy(a), torch.from_numpy(b)).tolist() == expected


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_places_may_repeat(convert: object) -> None:
    assert callable(convert)
    index = convert(np.array([0, 2, 2, 0]))
    values = convert(np.array([1.0, 5.0, 3.0, -2.0]))
    zeros = np.zeros(3)
    assert put_add(convert(zeros.copy()), index, values).tolist() == [-1, 0, 8]
    assert put_max(convert(zeros.copy()), index, values).tolist() == [1, 0, 5]
    assert place_in(convert(np.array([1.0, 2.0, 4.0])), convert(np.array([0.0, 1.0, 3.9, 9.0]))).tolist() == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("width", [1, 31, 32, 33, 200])
def test_patterns_hash_alike_in_numpy_and_torch(width: int) -> None:
    rng = np.random.default_rng(width)
    active = rng.random((50, width)) < 0.5
    active[1] = active[0]
    marks = pattern_hash(active)
    np.testing.assert_array_equal(marks, pattern_hash(torch.from_numpy(active)).numpy())
    assert marks[0] == marks[1]
    distinct = len(np.unique(active, axis=0))
    assert len(np.unique(marks)) == distinct


def test_one_bit_makes_another_hash() -> None:
    active = np.zeros((65, 64), np.bool_)
    active[np.arange(64), np.arange(64)] = True
    assert len(np.unique(pattern_hash(active))) == 65
    points = np.random.default_rng(0).random((8, 5)).astype(np.float32)
    np.testing.assert_array_equal(row_hash(points), to_host(row_hash(torch.from_numpy(points))))
