"""Contract suites for those who add parts to the search: subclass one, say how the part is made, and run pytest.

    from falsifier.testing import MutatorContract

    class TestMirror(MutatorContract):
        def make(self):
            return Mirror()

Each suite runs on numpy arrays and, where torch is installed, on its tensors.
"""

from falsifier.testing.contracts import CoverageContract as CoverageContract
from falsifier.testing.contracts import EnergyContract as EnergyContract
from falsifier.testing.contracts import MutatorContract as MutatorContract
from falsifier.testing.contracts import ScalingContract as ScalingContract
from falsifier.testing.problems import small_problem as small_problem
