"""Vectors that are kept, and whether one is near: in trees, in a graph, and which of them is taken."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.coverage import kept as module
from falsifier.fuzz.coverage.graph import Graph
from falsifier.fuzz.coverage.kept import Kept, missing_of_extra
from falsifier.fuzz.coverage.trees import Trees

pytestmark = pytest.mark.skipif(missing_of_extra() != "", reason="the extra is not installed")
Array = NDArray[np.float32]
THRESHOLD = 0.05


def _vectors(count: int, d: int, *, flat: bool = False) -> Array:
    """Normal; `flat`: along three directions, and a little along the others, all of them oblique."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, d)) * (np.where(np.arange(d) < 3, 3.0, 0.02) if flat else 1.0)
    return np.asarray(rows @ np.linalg.qr(rng.normal(size=(d, d)))[0], np.float32)


def _around(rows: Array, share: float) -> Array:
    """Points at a share of the threshold, squared distances both, from each row."""
    away = np.random.default_rng(1).normal(size=rows.shape)
    away *= np.sqrt(share * THRESHOLD) / np.linalg.norm(away, axis=1)[:, None]
    return np.asarray(rows + away, np.float32)


def _is_near(kept: Array, rows: Array) -> NDArray[np.bool_]:
    """By the definition."""
    return np.array([bool((((kept - row) ** 2).sum(axis=1) <= THRESHOLD).any()) for row in rows])


def _part(kind: str, d: int) -> Trees | Graph | Kept:
    if kind == "trees":
        return Trees(float(np.sqrt(THRESHOLD)))
    return Graph(d, THRESHOLD) if kind == "graph" else Kept(d, THRESHOLD, 2000)


@pytest.mark.parametrize("kind", ["trees", "graph", "kept"])
@pytest.mark.parametrize("flat", [True, False])
def test_nearly_all_that_is_near_is_found_and_nothing_else(kind: str, flat: bool) -> None:
    part, stored = _part(kind, 8), _vectors(3000, 8, flat=flat)
    if kind != "graph":
        assert not part.near(stored).any()
    for first in range(0, 3000, 300):
        part.add(stored[first : first + 300])
    for share in (0.7, 0.98):
        assert part.near(_around(stored[:1000], share)).mean() > 0.98
    other = _vectors(4000, 8, flat=flat)[3000:] + np.float32(0.1)
    found = part.near(other)
    expected = _is_near(stored, other)
    assert not (found & ~expected).any()
    assert (expected & ~found).sum() <= 0.02 * len(other)


def test_a_vector_far_out_takes_no_digits_from_the_others() -> None:
    stored = _vectors(2000, 8)
    stored[0, 3], stored[1] = 1e15, -1e15
    trees = Trees(float(np.sqrt(THRESHOLD)))
    trees.add(stored)
    assert trees.near(stored).all()
    assert trees.near(_around(stored[2:], 0.98)).mean() > 0.99
    assert not trees.near(_around(stored[2:], 1.02) + np.float32(100)).any()


def test_trees_are_few_and_what_is_near_in_any_is_found() -> None:
    trees, stored = Trees(float(np.sqrt(THRESHOLD))), _vectors(6400, 3, flat=True)
    for first in range(0, 6400, 100):
        trees.add(stored[first : first + 100])
    assert len(trees._trees) <= 6
    assert sum(len(rows) for _, rows in trees._trees) == 6400
    assert trees.near(stored).all()


def test_trees_where_few_leaves_are_met_and_a_graph_elsewhere() -> None:
    narrow, wide = Kept(16, THRESHOLD, 2000), Kept(16, 8.0, 2000)
    narrow.add(_vectors(2001, 16, flat=True))
    wide.add(_vectors(2001, 16))
    assert (narrow._graph, wide._trees) == (None, None)
    assert narrow._trees is not None
    assert wide._graph is not None


def test_what_a_search_meets_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is too much, more goes into a graph; what is in the trees is still found."""
    monkeypatch.setattr(module, "_MET", 190)
    monkeypatch.setattr(module, "_LATEST", 500)
    kept, stored = Kept(8, THRESHOLD, 2000), _vectors(8000, 8, flat=True)
    for first in range(0, 8000, 250):
        kept.add(stored[first : first + 250])
    assert kept.size == 8000
    assert kept._trees is not None
    assert kept._graph is not None
    assert kept.near(stored).mean() > 0.99


@pytest.mark.parametrize("flat", [True, False])
def test_the_same_vectors_give_the_same_answers(flat: bool) -> None:
    stored, asked = _vectors(4000, 12, flat=flat), _vectors(6000, 12, flat=flat)[4000:]
    answers = []
    for _ in range(2):
        kept = Kept(12, THRESHOLD, 500)
        for first in range(0, 4000, 1000):
            kept.add(stored[first : first + 1000])
        answers.append(kept.near(asked + np.float32(0.03)).tolist())
    assert answers[0] == answers[1]


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "faiss" else importlib.util.find_spec(name))
    kept = Kept(8, THRESHOLD, 100)
    with pytest.raises(InputError, match=r"pip install 'vnn-falsifier\[fuzz\]'"):
        kept.add(_vectors(101, 8))
