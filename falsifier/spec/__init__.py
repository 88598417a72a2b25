"""From a query to tensors: box, domain, targets, margin. See `compile.py` for the path and `margin.py` for signs."""

from falsifier.spec.compile import Spec as Spec
from falsifier.spec.compile import compile_query as compile_query
from falsifier.spec.domain import Domain as Domain
from falsifier.spec.margin import Rounding as Rounding
from falsifier.spec.targets import Forms as Forms
from falsifier.spec.targets import Targets as Targets
