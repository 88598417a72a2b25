"""Whether an engine computes what the original file computes: a batch of points against single samples of that."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network.engine import Engine
from falsifier.network.reference import Sampled

Array = NDArray[Any]
Box = tuple[Array, Array]  # lower [n], upper [n]

_POINTS = 16
_FEWEST = 3
_BYTES = 1 << 26  # of the tensors of all points together: what a batch of the search holds, too
_SECONDS = 0.25  # of single samples, beyond the fewest
_OF_SPREAD = 2e-3
_OF_SPREAD_DISCRETE = 5e-2  # one step of a rounding inside the network is a step of the output
_OF_MAGNITUDE = 1e-5  # of the output's own
_OF_LARGEST = 1e-6  # of the largest output's: small ones are often differences of numbers as large as that
_OF_ONE = 8  # steps of 1.0 in its type: sigmoids and softmaxes round at that grain however small their values are
_OF_GRAIN = 16  # steps of half precision at the largest output, where the original computes in it
_OF_STEP = 32  # times what one step of the inputs' last bit changes


class GradientState(Enum):
    """What the gradients at the points look like."""

    UNCHECKED = "gradients were not looked at"
    ABSENT = "no gradients"
    FINE = "gradients are finite and not all zero"
    ZERO = "gradients are zero everywhere"
    NON_FINITE = "some gradients are infinite or NaN"
    WRONG = "gradients are not used: differences of the outputs contradict them"


@dataclass(frozen=True)
class SelfCheck:
    """The outcome. `worst` is the largest deviation in units of what is tolerated (so 1 is just accepted)."""

    passed: bool
    points: int
    worst: float
    reason: str
    gradient: GradientState = GradientState.UNCHECKED


def self_check(
    engine: Engine,
    reference: Sampled,
    box: Box | None = None,
    *,
    discrete: bool = False,
    gradient: bool = False,
    grain: float = 0.0,
    points: int = _POINTS,
) -> SelfCheck:
    """Compare at the centre, corners and random points of `box` (default: the unit box), in one batch and one alone.

    What is tolerated is measured per output: a part of its spread over the points, no less than rounding explains (a
    part of its magnitude, and what one step of the inputs' last bit changes). `discrete`: the network rounds inside, so
    that an engine's rounding may become a whole step: wider tolerance, and a quarter of the points may miss it.
    `grain`: the spacing at 1 of the half precision that the original computes in, where engines have float32.
    """
    if not discrete:  # where some points may miss, it takes enough of them
        points = min(points, max(_FEWEST, _BYTES // max(1, engine.lane_bytes)))
    x = check_points(reference, box, points)
    taken, expected, refusal = _expected(reference, x)
    if not taken:
        return SelfCheck(False, 0, np.inf, f"the original fails on every point of the box: {refusal}")
    x = x[taken]
    # in half precision every output may lose what the largest one loses: the layers before the last mix them
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    noise = np.full(expected.shape[1], _OF_GRAIN / _OF_STEP * grain * largest)
    try:
        together = np.asarray(_host(engine.outputs(engine.asarray(x))))
        alone = np.asarray(_host(engine.outputs(engine.asarray(x[:1]))))
        if together.shape != expected.shape:
            return SelfCheck(
                False, len(x), np.inf, f"outputs of shape {list(together.shape)} instead of {list(expected.shape)}"
            )
        deviation = _deviation(together, alone, expected, noise, discrete)
        if not _judge(deviation, discrete, GradientState.UNCHECKED).passed:  # what rounding explains takes more samples
            noise = np.maximum(noise, _step_noise(reference, x, expected))
            deviation = _deviation(together, alone, expected, noise, discrete)
        state = _gradient_state(engine, x) if gradient else GradientState.UNCHECKED
    except (EngineError, UnsupportedError) as error:
        return SelfCheck(False, len(x), np.inf, str(error))
    return _judge(deviation, discrete, state)


def _deviation(together: Array, alone: Array, expected: Array, noise: Array, discrete: bool) -> Array:
    """The deviation of a batch `[b, m]` and of its first point run alone `[1, m]`, per point."""
    batch = relative_deviation(together, expected, noise, discrete)
    batch[0] = max(batch[0], relative_deviation(alone, expected[:1], noise, discrete, spread_of=expected)[0])
    return batch


def _judge(deviation: Array, discrete: bool, state: GradientState) -> SelfCheck:
    allowed = len(deviation) // 4 if discrete else 0
    worst = float(np.sort(deviation)[::-1][allowed])
    missed = int((deviation > 1).sum())
    if worst <= 1:
        return SelfCheck(True, len(deviation), worst, f"agrees with the original on {len(deviation)} points", state)
    return SelfCheck(
        False, len(deviation), worst, f"deviates from the original on {missed} of {len(deviation)} points", state
    )


def check_points(reference: Sampled, box: Box | None, count: int) -> Array:
    """`[count, n]`: centre, lower and upper corner, random corners, random points; the same at every call."""
    n, dtype = reference.n, reference.dtype
    lower, upper = box if box is not None else (np.zeros(n), np.ones(n))
    lower, upper = np.asarray(lower, dtype=dtype), np.asarray(upper, dtype=dtype)
    rng = np.random.default_rng(0)
    corners = (count - 3) // 2
    share = np.concatenate(
        [
            np.full((1, n), 0.5, dtype=dtype),
            np.zeros((1, n), dtype=dtype),
            np.ones((1, n), dtype=dtype),
            rng.integers(0, 2, (max(corners, 0), n)).astype(dtype),
            rng.random((max(count - 3 - corners, 0), n)).astype(dtype),
        ]
    )[:count]
    # in this form an end of the box is met exactly, and widths that overflow do no harm
    points = np.clip(lower * (1 - share) + upper * share, lower, upper)
    whole = np.concatenate([np.full(i.size, i.dtype.kind not in "f") for i in reference.inputs])
    return np.asarray(np.where(whole, np.rint(points), points), dtype=dtype)


def relative_deviation(
    got: Array, expected: Array, noise: Array, discrete: bool, spread_of: Array | None = None
) -> Array:
    """Per point the largest deviation of an output, in units of what is tolerated. Equal infinities and NaNs agree."""
    seen = expected if spread_of is None else spread_of
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.where(np.isfinite(seen), seen, 0)
        spread = finite.max(axis=0) - finite.min(axis=0)
        tolerated = (_OF_SPREAD_DISCRETE if discrete else _OF_SPREAD) * spread
        magnitude = np.abs(finite).max(axis=0)
        rounding = np.maximum(_OF_MAGNITUDE * magnitude, _OF_LARGEST * magnitude.max()) + _OF_STEP * noise
        tolerated = np.maximum(tolerated, rounding)
        tolerated = np.maximum(tolerated, _OF_ONE * np.finfo(expected.dtype).eps)
        difference = np.abs(got.astype(np.float64) - expected)
        agree = (got == expected) | (np.isnan(got) & np.isnan(expected))
        ratio = np.where(agree, 0, difference / tolerated)
    return np.asarray(np.where(np.isnan(ratio), np.inf, ratio).max(axis=1))


def _expected(reference: Sampled, x: Array) -> tuple[list[int], Array, InputError | None]:
    """Which points the original takes, as many as a little time allows, their outputs, why it refuses the others."""
    taken: list[int] = []
    results: list[Array] = []
    refusal: InputError | None = None
    begin = time.perf_counter()
    for i, point in enumerate(x):
        if i >= _FEWEST and time.perf_counter() - begin > _SECONDS:
            break
        try:
            results.append(reference.run_flat(point))
            taken.append(i)
        except InputError as error:
            refusal = error
    return taken, np.array(results), refusal


def _step_noise(reference: Sampled, x: Array, y: Array) -> Array:
    """How much each output changes when every input moves by one step of its last bit: the most over a few points."""
    with np.errstate(over="ignore"):  # at the largest number
        step = np.nextafter(x, np.asarray(np.inf, dtype=x.dtype))
    stride = max(len(x) // 4, 1)
    at, moved, _ = _expected(reference, step[::stride])
    if not len(at):
        return np.zeros(y.shape[1])
    with np.errstate(invalid="ignore"):
        change: Array = np.abs(moved - y[::stride][at])
    return np.asarray(np.where(np.isfinite(change), change, 0).max(axis=0))


def _gradient_state(engine: Engine, x: Array) -> GradientState:
    if not engine.differentiable:
        return GradientState.ABSENT
    seed = np.random.default_rng(1).uniform(0.5, 1.5, (len(x), engine.m))
    if engine.m > 1:  # every other lane compares two outputs, as most atoms do
        seed[1::2] -= np.roll(seed[1::2], 1, axis=1)
    _, gradient = engine.vjp(engine.asarray(x), engine.asarray(seed))
    gradient = np.asarray(_host(gradient))
    if not np.isfinite(gradient).all():
        return GradientState.NON_FINITE
    return GradientState.FINE if gradient.any() else GradientState.ZERO


def _host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()
