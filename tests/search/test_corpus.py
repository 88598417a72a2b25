"""The corpus: lineage, no twins, draws by energy, eviction, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from falsifier.arrays import Rng, as_like, to_host
from falsifier.errors import InputError
from falsifier.search.corpus import Children, Corpus
from falsifier.search.corpus_file import load, save
from falsifier.testing.problems import small_problem

KINDS = pytest.mark.parametrize("kind", ["numpy", "torch"])


def like(kind: str) -> Any:
    return small_problem(kind).like


def corpus(kind: str, groups: int = 3, capacity: int = 8) -> Corpus:
    """Originals (g, 0), without labels, aiming at target g."""
    x = np.stack([np.arange(groups), np.zeros(groups)], axis=1).astype(np.float32)
    zeros = as_like(np.zeros(groups, np.int64), like(kind))
    return Corpus(
        as_like(x, like(kind)),
        zeros - 1,
        as_like(np.arange(groups), like(kind)),
        as_like(np.full(groups, -1, np.float32), like(kind)),
        capacity,
    )


def admit(to: Corpus, kind: str, rows: list[tuple[float, float, int, float]], wanted: list[bool] | None = None) -> Any:
    """Rows of x_0, x_1, parent's slot, energy."""
    table = np.array(rows)
    children = Children(
        as_like(table[:, :2].astype(np.float32), like(kind)),
        as_like(table[:, 2].astype(np.int64), like(kind)),
        as_like(table[:, 2].astype(np.int64), like(kind)),
        as_like(np.zeros(len(rows), np.float32), like(kind)),
        as_like(table[:, 3], like(kind)),
    )
    mask = np.ones(len(rows), np.bool_) if wanted is None else np.array(wanted)
    return to_host(to.admit(children, as_like(mask, like(kind)))).tolist()


@KINDS
def test_children_know_where_they_come_from(kind: str) -> None:
    pool = corpus(kind)
    assert admit(pool, kind, [(1, 5, 1, 10), (2, 5, 2, 10)]) == [True, True]
    assert admit(pool, kind, [(1, 6, 3, 10)]) == [True]  # slot 3 holds entry 3, the first child
    parts = pool.host()
    assert parts["number"].tolist() == [0, 1, 2, 3, 4, 5]
    assert parts["parent"].tolist() == [-1, -1, -1, 1, 2, 3]
    assert parts["depth"].tolist() == [0, 0, 0, 1, 1, 2]
    assert parts["group"].tolist() == [0, 1, 2, 1, 2, 1]
    assert parts["originals"].tolist() == [[0, 0], [1, 0], [2, 0]]
    assert pool.size == 6


@KINDS
def test_twins_do_not_enter(kind: str) -> None:
    pool = corpus(kind)
    assert admit(pool, kind, [(1, 0, 1, 1)]) == [False]  # an original
    assert admit(pool, kind, [(1, 7, 1, 1), (1, 7, 0, 1), (1, 8, 0, 1)]) == [True, False, True]
    assert admit(pool, kind, [(1, 8, 1, 1)]) == [False]
    # one that is not wanted hides no twin that is
    assert admit(pool, kind, [(4, 4, 1, 1), (4, 4, 1, 1)], [False, True]) == [False, True]


@KINDS
def test_the_least_energy_gives_way_and_originals_stay(kind: str) -> None:
    pool = corpus(kind, groups=2, capacity=5)
    admit(pool, kind, [(0, 1, 0, 3), (0, 2, 0, 1), (0, 3, 0, 1)])
    admit(pool, kind, [(0, 4, 0, 9)])
    assert sorted(pool.host()["x"][:, 1].tolist()) == [0, 0, 1, 3, 4]  # of equal energies the older went
    admit(pool, kind, [(0, float(i), 0, 20 + i) for i in range(10, 19)])
    parts = pool.host()
    assert len(parts["x"]) == 5
    assert (parts["depth"] == 0).sum() == 2
    assert pool.capacity == 5


@KINDS
def test_draws_follow_energy(kind: str) -> None:
    pool = corpus(kind, groups=3, capacity=16)
    admit(pool, kind, [(0, 1, 0, 5), (2, 1, 2, 2)])  # energies 1 1 1 5 2
    counts = np.bincount(to_host(pool.draw(Rng(0), 20_000)), minlength=5) / 20_000
    np.testing.assert_allclose(counts, np.array([1, 1, 1, 5, 2]) / 10, atol=0.015)
    group = as_like(np.repeat([0, 1, 2], 6000), like(kind))
    drawn = to_host(pool.draw_within(Rng(1), group)).reshape(3, -1)
    assert set(drawn[1]) == {1}
    assert set(drawn[2]) == {2, 4}
    assert np.mean(drawn[0] == 3) == pytest.approx(5 / 6, abs=0.03)
    assert np.mean(drawn[2] == 4) == pytest.approx(2 / 3, abs=0.03)


@KINDS
def test_parents_are_paid_once_and_by_their_best_child(kind: str) -> None:
    pool = corpus(kind)
    slots = as_like(np.array([0, 2, 0]), like(kind))
    pool.note_drawn(slots)
    pool.renew_energy(slots, as_like(np.array([10.0, 0.1, 110.0]), like(kind)))
    assert to_host(pool.energy)[:3].tolist() == [110, 1, 0.1]
    assert to_host(pool.drawn)[:3].tolist() == [2, 0, 1]


@KINDS
def test_closed_groups_are_drawn_no_more(kind: str) -> None:
    pool = corpus(kind)
    pool.close(as_like(np.array([True, False, False]), like(kind)))
    assert set(to_host(pool.draw(Rng(0), 500))) == {1, 2}


@KINDS
def test_a_file_gives_back_the_same_corpus(kind: str, tmp_path: Path) -> None:
    pool = corpus(kind)
    admit(pool, kind, [(1, 5, 1, 10), (2, 5, 2, 7)])
    path = tmp_path / "deep" / "corpus.npz"
    save(pool, path)
    save(pool, path)
    assert [file.name for file in path.parent.iterdir()] == ["corpus.npz"]
    again = load(path, like(kind), pool.originals, 8)
    for name, values in pool.host().items():
        np.testing.assert_array_equal(again.host()[name], values, err_msg=name)
    np.testing.assert_array_equal(to_host(again.draw(Rng(3), 50)), to_host(pool.draw(Rng(3), 50)))
    assert admit(again, kind, [(2, 5, 2, 7), (2, 6, 2, 7)]) == [False, True]
    assert again.host()["number"].tolist()[-1] == 5


def test_other_files_are_refused(tmp_path: Path) -> None:
    pool, path = corpus("numpy"), tmp_path / "corpus.npz"
    for content in (b"nothing", b"", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="no corpus"):
            load(path, like("numpy"), pool.originals, 8)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="no corpus: it holds one array"):
        load(path, like("numpy"), pool.originals, 8)
    save(pool, path)
    with pytest.raises(InputError, match=r"^[^:]*: a corpus of other boxes"):
        load(path, like("numpy"), pool.originals + 1, 8)
    with pytest.raises(InputError, match="3 originals in 2 inputs"):
        load(path, like("numpy"), pool.originals[:2], 8)
