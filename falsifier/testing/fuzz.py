"""Contracts of what a fuzzer is extended by: mutators, objectives, coverage. Subclass, and give the piece under test.

class TestMine(MutatorContract):
    def mutator(self, space):
        return Mine(space)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.coverage import Coverage
from falsifier.fuzz.mutators import Mutator
from falsifier.fuzz.objectives import Objective
from falsifier.fuzz.space import Space, make_space
from falsifier.network.reference import TensorInfo

Array = NDArray[Any]


class MutatorContract:
    """What every mutator keeps to. Override `mutator`; `space` where it needs another one."""

    def mutator(self, space: Space) -> Mutator:
        """The mutator under test, fresh."""
        raise NotImplementedError

    def space(self) -> Space:
        """Five floats within -2 .. 3, and two integers within 0 .. 9."""
        infos = [TensorInfo("X", (1, 5), np.dtype(np.float32)), TensorInfo("K", (1, 2), np.dtype(np.int64))]
        return make_space(infos, ranges={"X": (-2.0, 3.0), "K": (0.0, 9.0)})

    def _children(self, rng_seed: int) -> tuple[Space, Array, Array]:
        space = self.space()
        parents = space.uniform(Rng(1), 64)
        before = parents.copy()
        mutator, rng = self.mutator(space), Rng(rng_seed)
        oldest = np.zeros(64, np.int64)
        for _ in range(3):
            children = mutator.children(parents, oldest, rng)
        assert np.array_equal(parents, before), "it changed its parents"
        return space, parents, children

    def test_one_child_for_each_parent(self) -> None:
        _, parents, children = self._children(0)
        assert children.shape == parents.shape
        assert children.dtype == parents.dtype

    def test_same_draws_same_children(self) -> None:
        np.testing.assert_array_equal(self._children(7)[2], self._children(7)[2])

    def test_it_changes_something(self) -> None:
        _, parents, children = self._children(3)
        assert (children != parents).any()

    def test_children_can_be_projected(self) -> None:
        space, _, children = self._children(5)
        inside = space.project(children)
        assert np.isfinite(inside).all()
        assert (inside >= space.lower).all()
        assert (inside <= space.upper).all()


class ObjectiveContract:
    """What every objective keeps to. Override `parts`."""

    def parts(self) -> tuple[Objective, Space, Any]:
        """The objective, its space, and what runs batches `[b, n]` -> `Seen`. Some points must be hits, some not."""
        raise NotImplementedError

    def points(self, space: Space) -> Array:
        """Points to judge `[b, n]`."""
        return space.uniform(Rng(2), 200)

    def test_a_row_is_judged_by_itself(self) -> None:
        objective, space, run = self.parts()
        x = self.points(space)
        oldest = np.zeros(len(x), np.int64)
        together = objective.judge(x, run(x), oldest)
        assert together.hit.shape == together.score.shape == together.label.shape == (len(x),)
        assert together.hit.dtype == np.bool_
        alone = [objective.judge(x[i : i + 1], run(x[i : i + 1]), oldest[:1]) for i in range(20)]
        assert [bool(a.hit[0]) for a in alone] == together.hit[:20].tolist()

    def test_scores_are_never_nan(self) -> None:
        objective, space, run = self.parts()
        x = self.points(space)
        assert not np.isnan(objective.judge(x, run(x), np.zeros(len(x), np.int64)).score).any()

    def test_hits_are_confirmed_and_others_are_not(self) -> None:
        objective, space, run = self.parts()
        x = self.points(space)
        hit = objective.judge(x, run(x), np.zeros(len(x), np.int64)).hit
        assert hit.any()
        assert not hit.all()
        confirmed = np.array([objective.confirm(point, 0) is not None for point in x])
        assert (confirmed == hit).mean() > 0.95, "batch and original disagree on more than rounding explains"

    def test_a_finding_has_a_script(self) -> None:
        objective, space, run = self.parts()
        x = self.points(space)
        at = int(objective.judge(x, run(x), np.zeros(len(x), np.int64)).hit.argmax())
        finding = objective.confirm(x[at], 0)
        assert finding is not None
        compile("\n".join(objective.reproducer(x[at], finding).lines), "reproducer", "exec")


class CoverageContract:
    """What every coverage keeps to. Override `coverage`; the vectors are `[b, 3]`."""

    def coverage(self) -> Coverage:
        """The coverage under test, empty."""
        raise NotImplementedError

    def _vectors(self) -> Array:
        return np.random.Generator(np.random.PCG64(0)).normal(size=(200, 3)).astype(np.float32) * 10

    def test_the_same_is_never_new_twice(self) -> None:
        coverage, vectors = self.coverage(), self._vectors()
        far = np.full_like(vectors, 1e6)
        while True:
            size = coverage.size
            new = coverage.novel(vectors, far)
            if not len(new):
                break
            assert coverage.size > size, "what was new was not kept"
        assert not len(coverage.novel(vectors[::-1].copy(), far))

    def test_what_is_restored_is_not_new(self) -> None:
        coverage, vectors = self.coverage(), self._vectors()
        coverage.restore(vectors)
        assert not len(coverage.novel(vectors, np.full_like(vectors, 1e6)))

    def test_values_that_are_not_finite_are_taken(self) -> None:
        coverage, vectors = self.coverage(), self._vectors()[:4]
        vectors[0], vectors[1, 0], vectors[2, 1] = np.nan, np.inf, -np.inf
        new = coverage.novel(vectors, np.zeros_like(vectors))
        assert set(np.asarray(new).tolist()) <= set(range(4))
