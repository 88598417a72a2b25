"""What the tests of compiling share: the margins of a query on a network that is known by its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from analytic_engine import AnalyticEngine
from query_trees import bounds, slots

from falsifier.problem import Problem
from falsifier.query.tree import Query
from falsifier.spec import compile_query


def margins(what: Query, network: Any, points: Any, **kwargs: Any) -> list[float]:
    """The best margin over targets at points of free inputs."""
    spec = compile_query(what, np.float64, **kwargs)
    return [float(v) for v in Problem(spec, network).screen(np.array(points, float)).max(axis=1)]


SUMS = AnalyticEngine([[1.0, 0.0], [1.0, 1.0]])  # Y_0 = X_0, Y_1 = X_0 + X_1
X, Y = slots(0, 2), slots(2, 2)
UNIT = bounds([0, 0], [1, 1])
