"""Ranges, radii, lattices, and starts from a file."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from falsifier.arrays import Rng
from falsifier.errors import InputError
from falsifier.fuzz.space import make_space
from falsifier.fuzz.starts import read_arrays, table_sizes
from falsifier.network import load
from falsifier.network.reference import TensorInfo

FLOATS = TensorInfo("X", (1, 3), np.dtype(np.float32))
WHOLE = TensorInfo("K", (2,), np.dtype(np.int64))


@settings(max_examples=200)
@given(
    start=st.floats(-1e3, 1e3, width=32),
    radius=st.floats(1e-6, 10.0),
    x=st.floats(allow_nan=True, allow_infinity=True, width=32),
)
def test_nothing_leaves_the_ball(start: float, radius: float, x: float) -> None:
    space = make_space([FLOATS], radius=radius, starts=np.full((1, 3), start))
    inside = space.project(np.full((1, 3), x, np.float32), space.starts)
    assert np.isfinite(inside).all()
    assert (np.abs(inside.astype(np.float64) - space.starts.astype(np.float64)) <= radius).all()


def test_integers_stay_whole_and_radii_are_for_floats() -> None:
    space = make_space([FLOATS, WHOLE], ranges={"K": (0, 9)}, radius=0.5, starts=np.zeros((1, 5)))
    inside = space.project(np.array([[9, -9, 0.1, 3.4, 77]], np.float32), space.starts)
    np.testing.assert_allclose(inside, [[0.5, -0.5, 0.1, 3, 9]])
    parts = space.split(inside)
    assert parts["K"].dtype == np.int64
    assert parts["K"].shape == (1, 2)
    np.testing.assert_array_equal(space.join(parts), inside)


def test_bounds_that_are_no_float32_round_inwards() -> None:
    space = make_space([FLOATS], ranges={"": (0.1, 0.3)})
    assert float(space.lower[0]) >= 0.1
    assert float(space.upper[0]) <= 0.3


def test_random_points_cover_the_ranges() -> None:
    space = make_space([FLOATS, WHOLE], ranges={"X": (2, 5), "K": (1, 3)})
    x = space.uniform(Rng(0), 500)
    assert x[:, :3].min() < 2.1
    assert x[:, :3].max() > 4.9
    assert set(np.unique(x[:, 3:]).tolist()) == {1.0, 2.0, 3.0}


@pytest.mark.parametrize(
    ("ranges", "said"),
    [({"Z": (0.0, 1.0)}, "no input is called 'Z'"), ({"K": (0.2, 0.8)}, "is empty")],
)
def test_bad_ranges_are_said(ranges: dict[str, tuple[float, float]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_space([FLOATS, WHOLE], ranges=ranges)


def test_starts_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "starts.npz"
    np.savez(file, X=np.ones((4, 1, 3)), K=np.zeros((4, 2), np.int64), labels=np.arange(4))
    starts, labels = read_arrays(file, [FLOATS, WHOLE])
    assert starts.shape == (4, 5)
    assert labels is not None
    assert labels.tolist() == [0, 1, 2, 3]
    np.save(tmp_path / "one.npy", np.ones((2, 3)))
    assert read_arrays(tmp_path / "one.npy", [FLOATS])[0].shape == (2, 3)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.ones((2, 3))}, "no array is called 'K'"),
        ({"X": np.ones((2, 4)), "K": np.ones((2, 2))}, r"'X' has shape \[2, 4\]; a sample has 3 values, .*\[N, 3\]"),
        ({"X": np.ones((2, 3)), "K": np.ones((3, 2))}, "3 samples, the inputs before it 2"),
        ({"X": np.full((1, 3), np.nan), "K": np.ones((1, 2))}, "not finite"),
    ],
)
def test_bad_starts_are_said(arrays: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_arrays(arrays, [FLOATS, WHOLE])


IMAGE = TensorInfo("X", (1, 3, 4, 4), np.dtype(np.float32))
ONE = TensorInfo("X", (1, 1), np.dtype(np.float32))


@pytest.mark.parametrize(
    ("shape", "info", "count"),
    [
        ((12, 3), FLOATS, 12),
        ((3,), FLOATS, 1),
        ((1, 3), FLOATS, 1),
        ((1, 1, 3), FLOATS, 1),
        ((5, 2, 1, 3), FLOATS, 10),
        ((5, 3, 1), FLOATS, 5),
        ((3, 4, 4), IMAGE, 1),
        ((7, 3, 4, 4), IMAGE, 7),
        ((7, 1, 3, 4, 4), IMAGE, 7),
        ((7, 48), IMAGE, 7),
        ((7, 6, 8), TensorInfo("X", (1, 48), np.dtype(np.float32)), 7),
        ((), ONE, 1),
        ((9,), ONE, 9),
        ((9, 1), ONE, 9),
    ],
)
def test_the_last_axes_are_a_sample(shape: tuple[int, ...], info: TensorInfo, count: int) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)
    starts, _ = read_arrays({"X": values}, [info])
    np.testing.assert_array_equal(starts, values.reshape(count, info.size))


@pytest.mark.parametrize(
    ("shape", "info"),
    [
        ((12, 7), FLOATS),
        ((3, 12), FLOATS),
        ((12,), FLOATS),
        ((0, 3), FLOATS),
        ((7, 4, 4, 3), IMAGE),
        ((3, 4, 16), IMAGE),
        ((12, 7), ONE),
    ],
)
def test_what_is_no_sample_is_never_cut_into_some(shape: tuple[int, ...], info: TensorInfo, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", X=np.full(shape, 100.0))
    with pytest.raises(InputError, match=r"bad\.npz: 'X' has shape \[.*\]; a sample has \d+ values?"):
        read_arrays(tmp_path / "bad.npz", [info])


def test_only_a_lone_array_may_have_another_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", other=np.ones((2, 3)), labels=np.zeros(2, np.int64))
    assert read_arrays(tmp_path / "one.npz", [FLOATS])[0].shape == (2, 3)
    np.savez(tmp_path / "two.npz", a=np.ones((2, 3)), b=np.ones((2, 3)))
    with pytest.raises(InputError, match="holds 'a', 'b', and no array is called 'X'"):
        read_arrays(tmp_path / "two.npz", [FLOATS])


def test_the_table_says_how_many_ids_there_are() -> None:
    nodes = [helper.make_node("Gather", ["table", "X"], ["Y"])]
    model = models.model(
        nodes,
        [models.tensor("X", [1, 4], np.int64)],
        [models.tensor("Y", [1, 4, 2])],
        [models.constant("table", np.zeros((17, 2)))],
    )
    assert table_sizes(load(model)) == {"X": 17}
