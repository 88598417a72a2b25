"""Judges both engines by the cases that the `onnx` package ships.

    python benchmarks/onnx_cases.py [--every N] [--match TEXT] [--engine NAME] [--json FILE]

prints the table of docs/engines.md and, with --json, every outcome. Each case is run as a batch of lanes
(`onnx_case_data`).
Every lane is compared with one sample of the original model in onnxruntime, which is what confirms a witness; where it
cannot run the model, the lane that holds the case's data is compared with the case's outputs. Cases whose outputs
onnxruntime itself contradicts are counted. Gradients are judged by `onnx_case_gradients.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_case_data import LANES, Case, OutOfScope, lanes_of, load_cases, with_constants

from falsifier.errors import EngineError, InputError, UnsupportedError
from falsifier.network.lowering import Lowered, lower
from falsifier.network.reference import Reference

ENGINES = ("onnxruntime", "torch")


class Outcome(Enum):
    """How a case fared in one engine."""

    PASS = "pass"
    REFUSED = "refused"  # with a message
    OUT_OF_SCOPE = "out of scope"  # refused, and it is not a feed-forward network of numbers
    FAILED = "failed"  # a crash, or lowered and then the engine could not run it
    WRONG = "wrong"


@dataclass(frozen=True)
class Judgement:
    """The outcome of one case in one engine; `reading` is the widest one that passed, or the one that did not.

    `disputed`: onnxruntime contradicts the outputs that the case gives; it counts.
    """

    case: str
    kind: str
    engine: str
    outcome: Outcome
    reading: str = ""
    message: str = ""
    disputed: bool = False


def build_engine(name: str, lowered: Lowered) -> Any:
    """One of `ENGINES` for a lowered program, on one CPU thread."""
    if name == "torch":
        from falsifier.network.torch_engine import TorchEngine

        return TorchEngine(lowered, "cpu", threads=1)
    from falsifier.network.onnxruntime_engine import OnnxruntimeEngine

    return OnnxruntimeEngine(lowered, threads=1)


@dataclass(frozen=True)
class Expectation:
    """What single samples of the original give: per lane the flat outputs, None where it rejects the lane.

    `half`: the model computes in half precision. `disputed`: onnxruntime contradicts the case's own outputs.
    """

    lanes: list[NDArray[Any] | None]
    half: bool
    disputed: bool = False

    @classmethod
    def of(cls, case: Case, varying: Sequence[int], stacks: Sequence[NDArray[Any]]) -> Expectation:
        """From onnxruntime; where it cannot run the model, from the case's own outputs, for the first lane alone."""
        arrays = (*case.inputs, *case.expected)
        half = any(a.dtype == np.float16 for a in arrays)
        expected = _flat(case.expected)
        lanes: list[NDArray[Any] | None] = [expected] + [None] * (LANES - 1)
        try:
            reference = Reference(case.model.SerializeToString(), [x.shape for x in case.inputs])
        except (InputError, UnsupportedError):
            return cls(lanes, half)
        for lane in range(LANES):
            feed = list(case.inputs)
            for i, stack in zip(varying, stacks, strict=True):
                feed[i] = stack[lane]
            try:
                lanes[lane] = _flat(reference.run(feed))
            except (InputError, UnsupportedError):
                continue
        disputed = lanes[0] is not None and difference(lanes[0], expected, half=half) is not None
        return cls(lanes, half, disputed)


def _flat(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.asarray(a).ravel().astype(np.float64) for a in arrays] or [np.zeros(0)])


def difference(got: NDArray[Any], want: NDArray[Any], *, half: bool) -> str | None:
    """How flat outputs differ beyond rounding; None if they agree. NaN is NaN, infinity the largest number."""
    if got.shape != want.shape:
        return f"{got.size} outputs where {want.size} are expected"
    got, want = (np.where(np.abs(a) >= 3.4028e38, np.copysign(np.inf, a), a) for a in (got, want))
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=1.0))
    tolerance = (1e-2 if half else 1e-4) * np.abs(want) + (1e-2 if half else 2e-5) * scale
    with np.errstate(invalid="ignore"):
        same = np.where(finite, np.abs(got - want) <= tolerance, (got == want) | (np.isnan(got) & np.isnan(want)))
    if same.all():
        return None
    worst = int(np.argmin(same))
    return f"output {worst} is {got[worst]:.6g}, expected {want[worst]:.6g} ({int((~same).sum())} of {got.size} differ)"


def judge(case: Case, engine: str) -> Judgement:
    """Every reading of a case: wrong or failed if one is, passed if one passed, else refused."""
    passed: Judgement | None = None
    refusal = "no reading of it has inputs that vary"
    for reading, varying in case.readings():
        try:
            outcome, message, disputed = _judge_reading(case, varying, engine)
        except Exception as error:  # noqa: BLE001 - a crash is the outcome of one case and must not hide the others
            outcome, message, disputed = Outcome.FAILED, f"{type(error).__name__}: {error}", False
        if outcome in (Outcome.WRONG, Outcome.FAILED):
            return Judgement(case.name, case.kind, engine, outcome, reading, message, disputed)
        if outcome is Outcome.PASS:
            passed = passed or Judgement(case.name, case.kind, engine, outcome, reading, "", disputed)
        else:
            refusal = message
    if passed is not None:
        return passed
    foreign = case.foreign()
    outcome = Outcome.REFUSED if foreign is None else Outcome.OUT_OF_SCOPE
    return Judgement(case.name, case.kind, engine, outcome, "", foreign or refusal)


def _judge_reading(case: Case, varying: Sequence[int], engine_name: str) -> tuple[Outcome, str, bool]:
    stacks = lanes_of(case, varying)
    try:
        lowered = lower(with_constants(case, varying), [case.inputs[i].shape for i in varying])
    except UnsupportedError as error:
        return Outcome.REFUSED, str(error), False
    points = np.concatenate([s.reshape(LANES, -1).astype(lowered.dtype) for s in stacks], axis=1)
    if any(not _representable(s, lowered.dtype) for s in stacks):
        return Outcome.REFUSED, f"the case's integers have no exact {lowered.dtype}", False
    try:
        engine = build_engine(engine_name, lowered)
        outputs = np.asarray(engine.outputs(engine.asarray(points)), dtype=np.float64)
    except UnsupportedError as error:
        return Outcome.REFUSED, str(error), False
    except EngineError as error:
        return Outcome.FAILED, str(error), False
    expectation = Expectation.of(case, varying, stacks)
    for lane, want in enumerate(expectation.lanes):
        if want is None:
            continue
        want = want.astype(lowered.dtype).astype(np.float64)
        problem = difference(outputs[lane], want, half=expectation.half)
        if problem is not None:
            return Outcome.WRONG, f"lane {lane}: {problem}", expectation.disputed
    return Outcome.PASS, "", expectation.disputed


def _representable(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    if array.dtype.kind == "f":
        return True
    return bool(np.all(np.abs(array.astype(np.float64)) <= 2.0 ** np.finfo(dtype).nmant))


def judge_all(
    cases: Sequence[Case | OutOfScope], engines: Sequence[str], watch: Callable[[Judgement], None] = lambda _: None
) -> list[Judgement]:
    """Every case in every engine."""
    found = []
    for case in cases:
        for engine in engines:
            if isinstance(case, OutOfScope):
                judgement = Judgement(case.name, case.kind, engine, Outcome.OUT_OF_SCOPE, "", case.reason)
            else:
                judgement = judge(case, engine)
            watch(judgement)
            found.append(judgement)
    return found


def table(judgements: Sequence[Judgement]) -> str:
    """Counts per engine as Markdown, and the reasons for what is out of scope."""
    counts = Counter((j.engine, j.outcome) for j in judgements)
    engines = sorted({j.engine for j in judgements})
    lines = ["| | " + " | ".join(engines) + " |", "|---|" + "---:|" * len(engines)]
    for outcome in Outcome:
        lines.append(f"| {outcome.value} | " + " | ".join(str(counts[e, outcome]) for e in engines) + " |")
    lines.append("| all | " + " | ".join(str(sum(j.engine == e for j in judgements)) for e in engines) + " |")
    disputed = len({j.case for j in judgements if j.disputed})
    reasons = Counter(j.message for j in judgements if j.outcome is Outcome.OUT_OF_SCOPE and j.engine == engines[0])
    scope = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    notes = f"Out of scope ({engines[0]}): {scope or 'nothing'}. onnxruntime contradicts {disputed} cases."
    return "\n".join(lines) + f"\n\n{notes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="judge every N-th case")
    parser.add_argument("--match", default="", help="judge cases whose name contains this")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="judge this engine (default: both)")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    options = parser.parse_args()
    cases = [case for case in load_cases() if options.match in case.name][:: options.every]
    if not cases:
        parser.error(f"no case has {options.match!r} in its name")

    def watch(judgement: Judgement) -> None:
        if judgement.outcome in (Outcome.WRONG, Outcome.FAILED):
            where = f"{judgement.case} {judgement.engine} {judgement.reading}"
            print(f"{judgement.outcome.value}: {where}: {judgement.message}", file=sys.stderr, flush=True)

    judgements = judge_all(cases, options.engine or ENGINES, watch)
    if options.json:
        rows = [asdict(j) | {"outcome": j.outcome.value} for j in judgements]
        options.json.write_text(json.dumps(rows, indent=0) + "\n")
    print(table(judgements))


if __name__ == "__main__":
    main()
