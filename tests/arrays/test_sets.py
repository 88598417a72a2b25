"""Keys, sets and counts, the same for numpy arrays and torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from falsifier.arrays import Marks, first_of, pattern_hash, place_in, put_add, put_max, row_hash, to_host

keys = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(keys)
def test_first_of_marks_the_first_of_each(items: list[int]) -> None:
    expected = [item not in items[:i] for i, item in enumerate(items)]
    host = np.array(items)
    assert first_of(host).tolist() == expected
    assert first_of(torch.from_numpy(host)).tolist() == expected


@given(st.lists(keys, max_size=4), keys)
def test_marks_are_a_set(batches: list[list[int]], asked: list[int]) -> None:
    for convert in (np.asarray, torch.from_numpy):
        marks, known = Marks(convert(np.zeros(0, np.int64)), 64), set[int]()
        for batch in batches:
            new = [item not in known and item not in batch[:i] for i, item in enumerate(batch)]
            marks.add(convert(np.array(batch)), convert(np.array(new)))
            known |= set(batch)
        assert marks.has(convert(np.array(asked))).tolist() == [item in known for item in asked]


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_marks_forget_the_oldest(convert: Callable[[Any], Any]) -> None:
    marks, every = Marks(convert(np.arange(1, 4)), 10), convert(np.ones(5, np.bool_))
    for first in range(100, 300, 5):
        marks.add(convert(np.arange(first, first + 5)), every)
    assert marks.has(convert(np.arange(290, 300))).all()
    assert not marks.has(convert(np.array([0, 1, 2, 3, 100, 200]))).any()


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_places_may_repeat(convert: Callable[[Any], Any]) -> None:
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
