"""Running an engine before it is needed: its sessions are made, its memory is allocated, its kernels are loaded."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network.engine import Engine
from falsifier.objective import ObjectiveForm, Reduction

_REDUCTIONS = (Reduction.HINGE, Reduction.HARD)
_LANES = 16


def rehearse(engine: Engine) -> None:
    """Run what a search runs, on inputs of 0 and 1: no query is known here.

    A network may refuse these inputs. What is not ready then is made when it is asked for.
    """
    x = engine.asarray(np.resize([0.0, 1.0], (_LANES, 1)) + np.zeros((1, engine.n)))
    with suppress(EngineError, InputError, UnsupportedError, MemoryError):
        engine.outputs(x)
        if not engine.differentiable:
            return
        rows = engine.asarray(np.ones((1, 1, engine.m)))
        offset, scale = (engine.asarray(np.full((_LANES, 1), value)) for value in (0.0, 1.0))
        for reduction in _REDUCTIONS:
            engine.ascend(x, ObjectiveForm(rows, offset, scale, reduction))
