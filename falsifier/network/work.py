"""How much work and memory one lane of a lowered program is, and what follows for an engine on the CPU."""

from __future__ import annotations

import math

from falsifier.machine import free_cores
from falsifier.network.division import Division
from falsifier.network.lowering import Lowered
from falsifier.network.onnx_graph import SHARED_BYTES
from falsifier.network.program import needed_primitives

_LARGE = 1 << 24  # bytes of constants that are not held twice where that can be avoided
_SMALL = 1e6  # multiplications of a lane
_HEAVY = 1 << 26  # bytes of matrices from which they are not copied
_PART = 1 << 24  # bytes of the tensors of a part's forward run
_FEWEST, _MOST = 4, 64  # lanes of a part
_SESSION = 1e9  # multiplications that take as long as to make a session, about


def is_small(lowered: Lowered) -> bool:
    """Whether a lane is so little work that threads would mostly wait for one another."""
    return work_per_lane(lowered) < _SMALL


def is_large(lowered: Lowered) -> bool:
    """Whether the constants are so large that no second session is made where one does."""
    return sum(a.nbytes for a in lowered.program.constants.values()) >= _LARGE


def division(lowered: Lowered, threads: int | None = None) -> Division:
    """How batches are divided: one thread for small networks; else one per core that this process may keep busy, each
    with parts of as many lanes as stay in a cache. Runs of large networks stay whole: their threads work inside."""
    work = work_per_lane(lowered)
    if work < _SMALL:
        return Division(threads or 1)
    count = threads or free_cores()
    if is_large(lowered):
        return Division(count)
    return Division(count, min(max(_PART // max(lowered.lane_bytes, 1), _FEWEST), _MOST), int(_SESSION / max(work, 1)))


def matrices(lowered: Lowered) -> frozenset[str]:
    """The names of large matrices that points are multiplied by, where these are so large that they are held once.

    onnxruntime packs a matrix for its products: a copy for every session, and one for its transpose in the adjoint.
    What is fed it takes where it lies.
    """
    constants, found = lowered.program.constants, dict[str, int]()
    for primitive in lowered.program.primitives:
        if primitive.op in ("Gemm", "MatMul") and primitive.inputs[1] in constants:
            matrix = constants[primitive.inputs[1]]
            if matrix.ndim == 2 and matrix.nbytes >= SHARED_BYTES:
                found[primitive.inputs[1]] = matrix.nbytes
    return frozenset(found if sum(found.values()) >= _HEAVY else ())


def work_per_lane(lowered: Lowered) -> float:
    """Multiplications of the products and convolutions of one lane."""
    program = lowered.program
    total = 0.0
    for primitive in needed_primitives(program, [lowered.y.name]):
        if primitive.op not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            continue
        x, y = program.values.get(primitive.inputs[0]), program.values[primitive.outputs[0]]
        w = program.constants.get(primitive.inputs[1])
        if primitive.op == "ConvTranspose" and x is not None and w is not None:
            total += x.lead * math.prod(x.stored) * math.prod(w.shape[1:])
        elif primitive.op == "Conv" and w is not None:
            total += y.lead * math.prod(y.stored) * math.prod(w.shape[1:])
        else:
            inner = x.stored[-1] if x is not None else program.constants[primitive.inputs[0]].shape[-1]
            total += y.lead * math.prod(y.stored) * inner
    return total
