"""The parts that come with the package keep the contracts that it publishes; the contracts see those that do not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from falsifier.arrays import Array, Rng
from falsifier.search.batch import Batch
from falsifier.search.coverage.coverage import Coverage
from falsifier.search.coverage.neighbours import Neighbours
from falsifier.search.coverage.neurons import Neurons
from falsifier.search.coverage.patterns import Patterns
from falsifier.search.energy import DecayingEnergy, Energy, PaperEnergy
from falsifier.search.mutators.boundary import Boundary
from falsifier.search.mutators.climb import Climb
from falsifier.search.mutators.fgsm import Fgsm
from falsifier.search.mutators.kick import Kick
from falsifier.search.mutators.mutator import Mutator
from falsifier.search.mutators.noise import Noise
from falsifier.search.mutators.pgd import Pgd
from falsifier.search.mutators.vertex import Vertex
from falsifier.search.scaling.anisotropic import Anisotropic
from falsifier.search.scaling.dynamic import Dynamic
from falsifier.search.scaling.fixed import Fixed
from falsifier.search.scaling.isotropic import Isotropic
from falsifier.search.scaling.scaling import Scaling
from falsifier.testing import CoverageContract, EnergyContract, MutatorContract, ScalingContract


@pytest.mark.parametrize("part", [Pgd(), Pgd(4, scalar=True), Fgsm(), Boundary(), Noise(), Vertex(), Kick(), Climb()])
class TestMutators(MutatorContract):
    @pytest.fixture(autouse=True)
    def _part(self, part: Mutator) -> None:
        self.part = part

    def make(self) -> Mutator:
        return self.part


@pytest.mark.parametrize("part", [Fixed(), Isotropic(), Anisotropic(), Dynamic(), Dynamic(0.5)])
class TestScalings(ScalingContract):
    @pytest.fixture(autouse=True)
    def _part(self, part: Scaling) -> None:
        self.part = part

    def make(self) -> Scaling:
        return self.part


@pytest.mark.parametrize("kind", [Neurons, Patterns, Neighbours])
class TestCoverages(CoverageContract):
    @pytest.fixture(autouse=True)
    def _kind(self, kind: type[Neurons] | type[Patterns] | type[Neighbours]) -> None:
        self.kind = kind

    def make(self) -> Coverage:
        return self.kind()


@pytest.mark.parametrize("part", [PaperEnergy(), DecayingEnergy()])
class TestEnergies(EnergyContract):
    @pytest.fixture(autouse=True)
    def _part(self, part: Energy) -> None:
        self.part = part

    def make(self) -> Energy:
        return self.part


@dataclass(frozen=True)
class Careless:
    """Writes into its parents, and draws from elsewhere."""

    fault: str
    slopes: int = 0
    name: str = "careless"

    def __call__(self, batch: Batch, eta: Array, rng: Rng) -> Array:
        if self.fault == "writes":
            batch.x[0] += 1
            return batch.x
        if self.fault == "shape":
            return batch.x[:1]
        assert batch.slope is not None
        batch.slope(batch.x)
        batch.slope(batch.x)
        return batch.x + 0


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("writes", "test_parents_stay_as_they_are"),
        ("shape", "test_children_are_like_their_parents"),
        ("slopes", "test_it_asks_for_no_more_gradients_than_it_says"),
    ],
)
def test_a_careless_mutator_is_caught(fault: str, test: str) -> None:
    class Contract(MutatorContract):
        def make(self) -> Mutator:
            return Careless(fault, slopes=1 if fault == "slopes" else 0)

    with pytest.raises(AssertionError):
        getattr(Contract(), test)()
