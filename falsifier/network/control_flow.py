"""If, Loop and Scan as plain primitives: both branches where the input chooses, every round of a loop written out.

A loop has a batched program where the number of its rounds is certain: counted by a constant, and ended by nothing that
the input decides. Both branches of an `If` are computed where the input chooses between them, and `Where` takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from falsifier.errors import UnsupportedError
from falsifier.network.operators import Node
from falsifier.network.operators.composition import compose, constant, given
from falsifier.network.program import Builder, Carried, Operand, Tensors, Value

CONTROL_FLOW = ("If", "Loop", "Scan")
Body = Callable[[Mapping[str, Carried]], Sequence[Carried]]
"""What a subgraph makes of its inputs."""
_MOST_NODES = 20_000  # of the body, once all rounds are written out: a program of as many takes seconds to make


def lower_if(build: Builder, condition: Carried, then_branch: Body, else_branch: Body) -> Sequence[Carried]:
    """The branch that a constant chooses; else both, and per lane the one that its condition chooses.

    Raises UnsupportedError where the branches give tensors of different shapes or types.
    """
    if isinstance(condition, np.ndarray):
        return (then_branch if condition.any() else else_branch)({})
    if not isinstance(condition, Value):
        raise UnsupportedError("If on what is no tensor")
    choice = build.shaped(condition, ())
    results: list[Carried] = []
    for a, b in zip(then_branch({}), else_branch({}), strict=True):
        if isinstance(a, Tensors) or isinstance(b, Tensors):
            raise UnsupportedError("If on a condition that depends on the input, between sequences")
        assert a is not None
        assert b is not None
        if a.shape != b.shape or a.dtype != b.dtype:
            raise UnsupportedError("If on a condition that depends on the input, between tensors of different shapes")
        results.append(compose(build, "Where", choice, a, b))
    return results


def lower_loop(build: Builder, node: Node, operands: Sequence[Carried], body: Body) -> Sequence[Carried]:
    """Loop, round by round. Raises UnsupportedError where the input decides how many rounds there are."""
    graph = node.attributes["body"]
    names = [i.name for i in graph.input]
    count = None if operands[0] is None else int(constant(operands[0], "the number of rounds").item())
    going: Carried = given(operands, 1)
    state = list(operands[2:])
    rounds: list[Sequence[Carried]] = []
    while (count is None or len(rounds) < count) and (going is None or constant(going, "the end of a loop").any()):
        _demand_few(len(rounds) + 1 if count is None else count, graph)
        number, flag = np.array(len(rounds), dtype=np.int64), np.array(True) if going is None else going
        going, *rest = body(dict(zip(names, (number, flag, *state), strict=True)))
        state = rest[: len(state)]
        rounds.append(rest[len(state) :])
    return [*state, *_collected(build, rounds, len(graph.output) - 1 - len(state))]


def lower_scan(build: Builder, node: Node, operands: Sequence[Carried], body: Body) -> Sequence[Carried]:
    """Scan, entry by entry of the sequences that it reads."""
    if node.version < 9:
        raise UnsupportedError("Scan of opset 8, which has a batch of its own")
    attributes, graph = node.attributes, node.attributes["body"]
    names = [i.name for i in graph.input]
    scanned = int(attributes["num_scan_inputs"])
    state, sequences = list(operands[: len(operands) - scanned]), operands[len(operands) - scanned :]
    axes = attributes.get("scan_input_axes") or [0] * scanned
    backwards = attributes.get("scan_input_directions") or [0] * scanned
    count = next(_length(s, axis) for s, axis in zip(sequences, axes, strict=True))
    _demand_few(count, graph)
    rounds: list[Sequence[Carried]] = []
    for at in range(count):
        entries = [
            _entry(build, s, count - 1 - at if back else at, axis)
            for s, axis, back in zip(sequences, axes, backwards, strict=True)
        ]
        results = body(dict(zip(names, (*state, *entries), strict=True)))
        state = list(results[: len(state)])
        rounds.append(results[len(state) :])
    many = len(graph.output) - len(state)
    out_axes = attributes.get("scan_output_axes") or [0] * many
    turned = attributes.get("scan_output_directions") or [0] * many
    return [*state, *_collected(build, rounds, many, out_axes, turned)]


def _demand_few(rounds: int, graph: Any) -> None:
    nodes = rounds * max(len(graph.node), 1)
    if nodes > _MOST_NODES:
        raise UnsupportedError(f"its rounds, written out, make {nodes} nodes, at most {_MOST_NODES} are lowered")


def _length(sequence: Carried, axis: int) -> int:
    assert isinstance(sequence, (Value, np.ndarray))
    return int(sequence.shape[axis])


def _entry(build: Builder, sequence: Carried, at: int, axis: int) -> Operand:
    assert isinstance(sequence, (Value, np.ndarray))
    return compose(build, "Gather", sequence, np.array(at, dtype=np.int64), axis=axis % len(sequence.shape))


def _collected(
    build: Builder,
    rounds: Sequence[Sequence[Carried]],
    many: int,
    axes: Sequence[int] | None = None,
    turned: Sequence[int] | None = None,
) -> list[Operand]:
    """What the rounds gave beside the state, one after the other along a new axis."""
    if many and not rounds:
        raise UnsupportedError("a loop without rounds makes an empty tensor")
    collected: list[Operand] = []
    for i in range(many):
        axis = axes[i] if axes else 0
        parts = [results[i] for results in (rounds[::-1] if turned and turned[i] else rounds)]
        collected.append(compose(build, "Concat", *(_widened(build, p, axis) for p in parts), axis=axis))
    return collected


def _widened(build: Builder, part: Carried, axis: int) -> Value | np.ndarray[Any, Any]:
    if part is None or isinstance(part, Tensors):
        raise UnsupportedError("sequences side by side")
    shape = list(part.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
    return build.shaped(part, tuple(shape)) if isinstance(part, Value) else part.reshape(shape)
