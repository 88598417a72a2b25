"""Judges gradients by the cases that the `onnx` package ships.

    python benchmarks/onnx_case_gradients.py [--every N] [--match TEXT] [--json FILE]

For each case that the engines run and whose outputs depend on a floating input: the adjoint program in float64 against
central differences along random directions, and against torch's autograd through the same closures; and the onnxruntime
engine's gradient in float32 against torch's. Directions along which two step sizes, or the two sides, disagree meet a
kink and are left out, as are differences where the adjoint is straight-through on purpose.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_case_data import LANES, Case, lanes_of, load_cases, with_constants
from onnx_cases import build_engine

from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.lowering import Lowered, lower
from falsifier.network.operators.elementwise import leak
from falsifier.network.selection import DISCRETE

STRAIGHT_THROUGH = DISCRETE | {"Cast", "Hardmax", "Mod"}
DIRECTIONS = 4
STEPS = (1e-6, 4e-6)  # of the size of each coordinate


class Agreement(Enum):
    """How the gradient of a case fared."""

    RIGHT = "right"
    STRAIGHT_THROUGH = "straight-through"  # differs from the derivative, on purpose
    NO_ADJOINT = "no adjoint"
    NOT_SMOOTH = "not smooth where it was looked at"
    WRONG = "wrong"


@dataclass(frozen=True)
class GradientJudgement:
    """`autograd`, `engines`: whether torch's autograd, the onnxruntime engine give the same; None: not compared."""

    case: str
    agreement: Agreement
    autograd: bool | None = None
    engines: bool | None = None
    message: str = ""


def judge_gradient(case: Case) -> GradientJudgement | None:
    """None for a case that is not lowered with varying floating inputs, or has no floating output."""
    varying = tuple(i for i, x in enumerate(case.inputs) if x.dtype.kind == "f")
    lowered = _lowered(case, varying) or _lowered(case, varying[:1])
    if lowered is None:
        return None
    return _judge(case, varying if lowered.n == sum(case.inputs[i].size for i in varying) else varying[:1], lowered)


def _lowered(case: Case, varying: Sequence[int]) -> Lowered | None:
    if not varying:
        return None
    try:
        return lower(with_constants(case, varying), [case.inputs[i].shape for i in varying])
    except UnsupportedError:
        return None


def _judge(case: Case, varying: Sequence[int], lowered: Lowered) -> GradientJudgement | None:
    from falsifier.network.torch_engine import TorchEngine

    if not any(info.dtype.kind == "f" for info in lowered.outputs):
        return None
    engine = TorchEngine(lowered, "cpu", np.float64, threads=1)
    if engine.gradient != "adjoint":
        return GradientJudgement(case.name, Agreement.NO_ADJOINT, message=engine.why_no_adjoint or "")
    stacks = lanes_of(case, varying)
    points = np.concatenate([s.reshape(LANES, -1).astype(np.float64) for s in stacks], axis=1)
    rng = np.random.default_rng(zlib.crc32(case.name.encode()) + 1)
    floating = np.concatenate([np.full(i.size, i.dtype.kind == "f") for i in lowered.outputs])
    seed = rng.normal(size=(LANES, lowered.m)) * floating
    _, gradient = (np.asarray(a) for a in engine.vjp(engine.asarray(points), engine.asarray(seed)))
    problem, smooth, clear = _against_differences(engine, points, seed, gradient, rng)
    agreement = Agreement.RIGHT if smooth else Agreement.NOT_SMOOTH
    if problem:
        through = {p.op for p in lowered.program.primitives} & STRAIGHT_THROUGH
        agreement = Agreement.STRAIGHT_THROUGH if through else Agreement.WRONG
    autograd = None
    if agreement is Agreement.RIGHT and clear.any():
        autograd = _by_autograd(engine, points[clear], seed[clear], gradient[clear])
    return GradientJudgement(case.name, agreement, autograd, _by_onnxruntime(lowered, points, seed), problem)


def _against_differences(
    engine: Any, points: NDArray[Any], seed: NDArray[Any], gradient: NDArray[Any], rng: np.random.Generator
) -> tuple[str, bool, NDArray[np.bool_]]:
    """What contradicts the gradient (empty if nothing does), whether there was a smooth direction at all, and the lanes
    `[b]` in which every direction was."""

    def value(x: NDArray[Any]) -> NDArray[Any]:
        terms: NDArray[Any] = np.asarray(engine.outputs(engine.asarray(x)))
        total: NDArray[Any] = np.where(seed != 0, terms * seed, 0.0).sum(axis=1)
        return total

    smooth_seen = False
    clear = np.ones(len(points), dtype=bool)
    with np.errstate(invalid="ignore"):
        scale = 0.1 + np.where(np.isfinite(points), np.abs(points), 0)
        here = value(points)
        for _ in range(DIRECTIONS):
            # uneven, so that equal elements part and their maximum shows its kink: ties are not judged (a pooling's
            # adjoint gives every tied element the whole gradient: each would have to move)
            steps = rng.uniform(0.5, 1.5, size=points.shape) * rng.choice([-1.0, 1.0], size=points.shape)
            direction = steps * scale
            h, wide = STEPS
            ahead, behind = ((value(points + step * direction) - here) / step for step in (h, -h))
            fine = (ahead + behind) / 2
            coarse = (value(points + wide * direction) - value(points - wide * direction)) / (2 * wide)
            claimed = np.where(direction != 0, gradient * direction, 0).sum(axis=1)
            noise = 1e-14 * np.abs(here) / h
            slope = np.abs(ahead) + np.abs(behind) + 1e-3
            kink = (np.abs(fine - coarse) > 1e-5 * slope + noise) | (np.abs(ahead - behind) > 1e-4 * slope + noise)
            smooth = np.isfinite(fine) & np.isfinite(claimed) & ~kink
            smooth_seen |= bool(smooth.any())
            clear &= smooth
            size = np.abs(gradient * direction).sum(axis=1)
            # activations that saturate have a least slope on purpose
            least = 2 * float(leak(np.float32)) * np.abs(direction).sum(axis=1) * np.abs(seed).max(axis=1)
            off = smooth & (np.abs(claimed - fine) > 1e-4 * slope + 1e-9 * size + least + 10 * noise)
            if off.any():
                lane = int(np.argmax(off))
                problem = f"lane {lane}: directional derivative {claimed[lane]:.6g}, differences {fine[lane]:.6g}"
                return problem, True, clear
    return "", smooth_seen, clear


def _by_autograd(engine: Any, points: NDArray[Any], seed: NDArray[Any], gradient: NDArray[Any]) -> bool | None:
    """Whether torch's autograd through the closures gives the same gradient; None where it cannot."""
    try:
        _, pull = engine._by_autograd(engine.asarray(points))
        other = np.asarray(pull(engine.asarray(seed)))
    except EngineError:
        return None
    return _close(gradient, other, 1e-6)


def _by_onnxruntime(lowered: Lowered, points: NDArray[Any], seed: NDArray[Any]) -> bool | None:
    """Whether the onnxruntime engine's gradient is torch's in the network's own type; None where one has none."""
    found = []
    for name in ("onnxruntime", "torch"):
        try:
            engine = build_engine(name, lowered)
            x, s = (engine.asarray(a.astype(lowered.dtype)) for a in (points, seed))
            found.append(np.asarray(engine.vjp(x, s)[1]))
        except (EngineError, UnsupportedError, ImportError):
            return None
    return _close(found[0], found[1], 1e-3)


def _close(a: NDArray[Any], b: NDArray[Any], tolerance: float) -> bool:
    """Equal up to a part of each lane's largest entry; NaN and infinity agree with themselves."""
    finite = np.isfinite(a) & np.isfinite(b)
    scale = np.maximum(np.abs(np.where(finite, a, 0)).max(axis=1, keepdims=True), 1e-3)
    with np.errstate(invalid="ignore"):
        same = np.where(finite, np.abs(a - b) <= tolerance * scale, (a == b) | (np.isnan(a) & np.isnan(b)))
    return bool(same.all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="judge every N-th case")
    parser.add_argument("--match", default="", help="judge cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    options = parser.parse_args()
    cases = [c for c in load_cases() if isinstance(c, Case) and options.match in c.name][:: options.every]
    found = []
    for case in cases:
        try:
            judgement = judge_gradient(case)
        except Exception as error:  # noqa: BLE001 - a crash is the outcome of one case and must not hide the others
            judgement = GradientJudgement(case.name, Agreement.WRONG, message=f"{type(error).__name__}: {error}")
        if judgement is None:
            continue
        found.append(judgement)
        if judgement.agreement is Agreement.WRONG or judgement.autograd is False or judgement.engines is False:
            print(judgement, file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(
            json.dumps([asdict(j) | {"agreement": j.agreement.value} for j in found], indent=0) + "\n"
        )
    counts = Counter(j.agreement for j in found)
    print("| gradient | cases |\n|---|---:|")
    for agreement in Agreement:
        print(f"| {agreement.value} | {counts[agreement]} |")
    for name in ("autograd", "engines"):
        answers = Counter(getattr(j, name) for j in found)
        print(f"| {name}: same, different, cannot be compared | {answers[True]}, {answers[False]}, {answers[None]} |")


if __name__ == "__main__":
    main()
