"""Whether an engine's gradients are the slopes of its own outputs: differences along a few directions.

An engine is believed wrong only where that is beyond doubt, since a search without gradients finds less: differences
to both sides, at two step sizes, agree with one another far better than with the gradient, stand out of rounding, and
do so at several points. Where outputs are flat nothing is judged: steps pass gradients straight through on purpose, and
what saturates keeps a least slope. Kinks, jumps and stairs are left alone as well: there differences disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import to_host
from falsifier.errors import EngineError
from falsifier.network.engine import Engine
from falsifier.objective import ObjectiveForm

if TYPE_CHECKING:
    from falsifier.network.lowering import Lowered

Array = NDArray[Any]

_FEW, _MANY = 4, 16  # points: looked at first, and where one of these speaks against the gradient
_CHEAP = 1 << 24  # bytes of the tensors of all first points: beyond, a look takes as long as a search's first steps
_SMALLEST, _LARGEST = 2.0**-16, 2.0**-5  # steps, in widths of the box
_STEPS = np.array([1.0, -1.0, 4.0, -4.0])  # of a lane's step
_ROUNDING = 8  # times the last bit of the outputs, or of 1, that a difference may be off by
_AGREE = 0.15  # of the slope: how far differences may lie apart, rounding included
_OFF = 0.25  # of the larger of slope and gradient: how far these must lie apart
_BY_FAR = 8  # times what the differences lie apart
_STRAIGHT = frozenset(("Ceil", "Floor", "Hardmax", "Mod", "QuantizeLinear", "Round", "Sign"))


def speaks_against(engine: Engine, lowered: Lowered, lower: Array, upper: Array) -> bool:
    """Whether gradients that are meant to be slopes are contradicted inside of a box `[n]`, where a look is cheap."""
    return is_judged(engine, lowered) and contradicted(engine, lower, upper)


def is_judged(engine: Engine, lowered: Lowered) -> bool:
    """Whether a look is cheap, and gradients are meant to be slopes: nothing is passed straight through a step."""
    if engine.stepped or lowered.grain or 5 * _FEW * engine.lane_bytes > _CHEAP:
        return False
    values = lowered.program.values
    for primitive in lowered.program.primitives:
        if primitive.op in _STRAIGHT:
            return False
        if primitive.op == "Cast" and primitive.inputs[0] in values:
            before, after = values[primitive.inputs[0]].dtype.kind, values[primitive.outputs[0]].dtype.kind
            if before == "b" or (before == "f" and after != "f"):
                return False
    return True


def contradicted(engine: Engine, lower: Array, upper: Array) -> bool:
    """Whether differences of the outputs contradict the gradients inside of a box `[n]`.

    Costs 4 gradients and 16 evaluations; 16 and 64 more where one of these points speaks against the gradient. False
    where nothing can be told: the engine fails there, or no difference stands out.
    """
    rng = np.random.default_rng(0)
    try:
        if not _looked(engine, lower, upper, rng, _FEW).against.any():
            return False
        look = _looked(engine, lower, upper, rng, _MANY)
    except (EngineError, MemoryError):
        return False
    against = int(look.against.sum())
    return 4 * against >= _MANY and 2 * against > int(look.judged.sum())


class _Look(NamedTuple):
    """Of lanes: where differences tell a slope at all, and where it is not the gradient's."""

    judged: NDArray[np.bool_]
    against: NDArray[np.bool_]


def _looked(engine: Engine, lower: Array, upper: Array, rng: np.random.Generator, lanes: int) -> _Look:
    n, steps = engine.n, len(_STEPS)
    with np.errstate(all="ignore"):  # boxes may be as wide as numbers are, and what overflows is not judged
        width = np.asarray(upper, np.float64) - lower
        x = (lower + width * rng.uniform(0.25, 0.75, (lanes, n))).astype(engine.dtype)
        seed = rng.uniform(0.5, 1.5, (lanes, engine.m)) * rng.choice([-1.0, 1.0], (lanes, engine.m))
        y, gradient, whole = _gradient(engine, x, seed)
        # every other lane goes where its gradient says that most is to be had
        sign = rng.choice([-1.0, 1.0], (lanes, n))
        sign[1::2] = np.where(gradient[1::2] != 0, np.sign(gradient[1::2]), sign[1::2])
        direction = sign * rng.uniform(0.5, 1.5, (lanes, n)) * width
        # the least slope of what saturates is below the last bit of 1
        grain = _ROUNDING * np.finfo(engine.dtype).eps * np.linalg.norm(np.maximum(np.abs(y), 1) * seed, axis=1)
        change = np.ptp(seed @ y.T, axis=1)  # of a walk across the box, whatever the gradient says
        change[1::2] = np.maximum(change[1::2], (direction * gradient).sum(axis=1)[1::2])
        step = np.clip(4 / _AGREE * grain / np.maximum(change, grain), _SMALLEST, _LARGEST) * _STEPS[:, None]
        moved = (x + step[:, :, None] * direction).astype(engine.dtype)
        beside = _host(engine.outputs(engine.asarray(moved.reshape(-1, n)))).reshape(steps, lanes, engine.m)
        slope = ((beside - y) * seed).sum(axis=2) / step
        claimed = ((moved.astype(np.float64) - x) * gradient).sum(axis=2) / step
        apart = np.ptp(slope, axis=0) + np.ptp(claimed, axis=0) + grain / step[0]
        mean, mine = slope.mean(axis=0), claimed.mean(axis=0)
        judged = whole & np.isfinite(mine) & (apart <= _AGREE * np.abs(mean))
        gap = np.abs(mean - mine)
        against = judged & (gap > _OFF * np.maximum(np.abs(mean), np.abs(mine))) & (gap > _BY_FAR * apart)
    return _Look(judged, against)


def _gradient(engine: Engine, x: Array, seed: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Outputs `[b, m]`, the gradient `[b, n]` of sum(seed * outputs) by the run that a search begins with, and the
    lanes in which it is that: below its bound a hinge has slope 1.
    """
    one = np.ones((len(x), 1))
    far_below = -np.finfo(engine.dtype).max / 4
    rows, offset, scale = (engine.asarray(a) for a in (seed[:, None, :], far_below * one, one))
    ascent = engine.ascend(engine.asarray(x), ObjectiveForm(rows, offset, scale))
    return _host(ascent.outputs), _host(ascent.gradient), _host(ascent.weight)[:, 0] == 1


def _host(array: Any) -> Array:
    return np.asarray(to_host(array), dtype=np.float64)
