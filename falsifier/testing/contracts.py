"""What every mutator, scaling, coverage and energy must do, as tests to inherit (`falsifier.testing`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, Rng, as_like, to_float64, to_host
from falsifier.search.batch import Batch
from falsifier.search.coverage.coverage import Coverage
from falsifier.search.directions import MarginDirection, Slope
from falsifier.search.energy import Energy, News, PaperEnergy
from falsifier.search.loop import Loop, Recipe
from falsifier.search.mutators.mutator import Mutator
from falsifier.search.mutators.noise import Noise
from falsifier.search.projection import IntoBox
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.scaling import Scaling
from falsifier.testing.problems import is_like, kinds, small_problem

_LANES = 9
_ARRAYS = ("x", "original", "lower", "upper", "target", "label", "drawn", "margin")  # of a batch


def some_batch(kind: str, lanes: int = _LANES, rng_seed: int = 0) -> Batch:
    """A batch of parents of the small problem, some steps into a loop."""
    recipe = Recipe([(Noise(), 1.0)], Anisotropic(), PaperEnergy(), MarginDirection(), keep_records=True)
    loop = Loop(small_problem(kind), recipe, Rng(rng_seed))
    for _ in range(4):
        loop.step(lanes)
    return loop.batch(loop.corpus.draw(Rng(rng_seed + 1), lanes))


class MutatorContract:
    """For a `Mutator`. `make` gives a fresh one."""

    def make(self) -> Mutator:
        raise NotImplementedError

    def test_children_are_like_their_parents(self) -> None:
        """One child a lane, of the same kind and type; projected, all are finite and in their boxes."""
        for kind in kinds():
            for lanes in (_LANES, 1):
                batch = some_batch(kind, lanes)
                children = self._children(batch)
                assert is_like(children, kind), f"{kind} parents, children {type(children)}"
                assert (children.shape, children.dtype) == (batch.x.shape, batch.x.dtype)
                inside = to_host(IntoBox()(children, batch))
                assert np.isfinite(inside).all()
                assert (inside >= to_host(batch.lower)).all()
                assert (inside <= to_host(batch.upper)).all()

    def test_parents_stay_as_they_are(self) -> None:
        """A mutator writes into nothing that it is given."""
        for kind in kinds():
            batch = some_batch(kind)
            before = {name: to_host(getattr(batch, name)).copy() for name in _ARRAYS}
            self._children(batch)
            for name, values in before.items():
                np.testing.assert_array_equal(to_host(getattr(batch, name)), values, err_msg=name)

    def test_all_chance_comes_from_the_generator(self) -> None:
        """The same state, the same children."""
        for kind in kinds():
            one, two = (to_host(self._children(some_batch(kind))) for _ in range(2))
            np.testing.assert_array_equal(one, two)

    def test_it_asks_for_no_more_gradients_than_it_says(self) -> None:
        """`slopes` is what the loop reckons with; where it is 0, there may be no gradient at all."""
        for kind in kinds():
            batch, asked = some_batch(kind), [0]

            def counted(x: Array, batch: Batch = batch, asked: list[int] = asked) -> Slope:
                assert batch.slope is not None
                asked[0] += 1
                return batch.slope(x)

            self._children(replace(batch, slope=counted if self.make().slopes else None))
            assert asked[0] <= self.make().slopes

    def _children(self, batch: Batch) -> Array:
        return self.make()(batch, Anisotropic(0.1).eta(batch), Rng(7))


class ScalingContract:
    """For a `Scaling`. `make` gives a fresh one."""

    def make(self) -> Scaling:
        raise NotImplementedError

    def test_steps_fit_the_batch(self) -> None:
        """Not negative, finite, of the batch's kind and type, and broadcast to it; unchanged by being asked again."""
        for kind in kinds():
            for lanes in (_LANES, 1):
                batch = some_batch(kind, lanes)
                eta = self.make().eta(batch)
                assert is_like(eta, kind)
                assert eta.dtype == batch.x.dtype
                assert np.broadcast_shapes(tuple(eta.shape), tuple(batch.x.shape)) == tuple(batch.x.shape)
                assert len(eta.shape) == 2, "lanes, then inputs"
                host = to_host(eta)
                assert np.isfinite(host).all()
                assert (host >= 0).all()
                assert (host > 0).any()
                np.testing.assert_array_equal(to_host(self.make().eta(batch)), host)

    def test_kinds_of_arrays_agree(self) -> None:
        """The same batch gives the same steps in numpy and torch."""
        steps = [to_float64(self.make().eta(_like(some_batch("numpy"), kind))) for kind in kinds()]
        for other in steps[1:]:
            np.testing.assert_allclose(other, steps[0], rtol=1e-5)


class CoverageContract:
    """For a `Coverage`. `make` gives a fresh one, which has seen nothing."""

    def make(self) -> Coverage:
        raise NotImplementedError

    def activations(self) -> NDArray[np.float32]:
        """Batches `[steps, b, w]` of activations; override where yours must look otherwise."""
        return np.random.default_rng(3).normal(0, 1, (6, _LANES, 40)).astype(np.float32)

    def test_what_was_seen_is_not_new(self) -> None:
        """bool `[b]` of the activations' kind; the first batch brings something, and nothing when it comes again."""
        for kind in kinds():
            coverage, seen = self.make(), self._moved(kind)
            first = coverage.novel(seen[0])
            assert is_like(first, kind)
            assert to_host(first).dtype == np.bool_
            assert tuple(first.shape) == (_LANES,)
            assert to_host(first).any()
            assert not to_host(coverage.novel(seen[0])).any()

    def test_counts_never_fall(self) -> None:
        """Figures are whole numbers by name."""
        for kind in kinds():
            coverage = self.make()
            last: dict[str, int] = {}
            for batch in self._moved(kind):
                coverage.novel(batch)
                figures = coverage.figures()
                assert all(type(value) is int for value in figures.values())
                assert all(value >= last.get(name, 0) for name, value in figures.items())
                last = figures
            assert last

    def test_kinds_of_arrays_agree(self) -> None:
        """The same activations bring the same news in numpy and torch."""
        news = []
        for kind in kinds():
            coverage = self.make()
            news.append([to_host(coverage.novel(batch)).tolist() for batch in self._moved(kind)])
        assert all(other == news[0] for other in news[1:])

    def test_it_watches_layers_that_there_are(self) -> None:
        """Names are taken from those that it is shown."""
        layers = ("first", "second", "third")
        assert set(self.make().watch(layers)) <= set(layers)

    def _moved(self, kind: str) -> list[Array]:
        like = small_problem(kind).like
        return [as_like(batch, like) for batch in self.activations()]


class EnergyContract:
    """For an `Energy`. `make` gives a fresh one."""

    def make(self) -> Energy:
        raise NotImplementedError

    def test_energies_are_weights(self) -> None:
        """float64, finite, not negative, whatever the news; a violation is worth at least as much as none."""
        for kind in kinds():
            like = small_problem(kind).like
            grid = np.meshgrid([False, True], [False, True], [np.nan, -1.0, 2.0])
            novel, violated, gain = (a.reshape(-1) for a in grid)
            parts = [as_like(a, like) for a in (novel > 0, violated > 0, gain.astype(np.float32), gain > 1)]
            children = self.make().of_children(News(*parts))
            before = as_like(np.linspace(0, 100, len(gain)), like)
            parents = self.make().of_parents(before, children)
            for energy in (children, parents):
                assert is_like(energy, kind)
                host = to_host(energy)
                assert host.dtype == np.float64
                assert np.isfinite(host).all()
                assert (host >= 0).all()
            host = to_host(children)
            assert host[violated > 0].min() >= host[violated == 0].min()


def _like(batch: Batch, kind: str) -> Batch:
    """The same batch in another kind of arrays."""
    like = small_problem(kind).like
    return replace(batch, **{name: as_like(to_host(getattr(batch, name)), like) for name in _ARRAYS})
