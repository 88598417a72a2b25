"""RNN, GRU and LSTM, unrolled over the sequence: one product for all inputs, then a few small primitives per step.

The inputs of the steps come from one Split, so that the adjoint of each is a part of one Concat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.operators import LOWERINGS as OPERATORS
from falsifier.network.operators import Node
from falsifier.network.operators.composition import Tensor, as_value, compose, constant, given
from falsifier.network.operators.elementwise import clip, combine, compare, elementwise, where
from falsifier.network.program import OPSET, Builder, Operand, Value

MOST_STEPS = 1024  # longer sequences would make programs of tens of thousands of primitives

Array = NDArray[Any]
Activation = Callable[[Builder, Tensor], Tensor]


@dataclass(frozen=True)
class _Weights:
    """Of one direction: `w` `[gates * H, I]`, `r` `[gates * H, H]`, biases `[gates * H]`, peepholes `[3 * H]`."""

    w: Array
    r: Array
    input_bias: Array
    state_bias: Array
    peepholes: Array | None

    @property
    def hidden(self) -> int:
        return int(self.r.shape[1])


@dataclass(frozen=True)
class _Cell:
    """One step of one direction: what `step` needs besides the state."""

    build: Builder
    weights: _Weights
    activations: Sequence[Activation]
    clip: float | None
    flag: bool  # GRU: linear_before_reset; LSTM: input_forget

    def activate(self, which: int, x: Tensor) -> Tensor:
        """Activation `which` of x, clipped before."""
        if self.clip is not None and self.clip > 0:
            x = clip(self.build, as_value(self.build, x), -self.clip, self.clip)
        return self.activations[which](self.build, x)

    def product(self, state: Tensor, gates: slice) -> Tensor:
        """state times the recurrent weights of some gates, `[N, gates * H]`."""
        h = self.weights.hidden
        r = self.weights.r[(gates.start or 0) * h : None if gates.stop is None else gates.stop * h]
        return compose(self.build, "MatMul", state, np.ascontiguousarray(r.T))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return combine(self.build, "Add", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return combine(self.build, "Mul", a, b)

    def gates(self, x: Tensor, count: int) -> list[Tensor]:
        """`[N, count * H]` apart."""
        if count == 1:
            return [x]
        if isinstance(x, Value):
            node = Node("Split", "", OPSET, {"axis": -1, "num_outputs": count}, ("",) * count)
            return [v for v in OPERATORS["Split"](self.build, node, [x]) if v is not None]
        return list(np.split(x, count, axis=-1))


def _rnn_step(cell: _Cell, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    return [cell.activate(0, cell.add(x, cell.product(state[0], slice(None))))]


def _gru_step(cell: _Cell, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Gates in the order update, reset, hidden."""
    (previous,) = state
    size = cell.weights.hidden
    bias = cell.weights.state_bias[2 * size :]
    x_update, x_reset, x_hidden = cell.gates(x, 3)
    if cell.flag:
        update, reset, hidden = cell.gates(cell.product(previous, slice(None)), 3)
    else:
        update, reset = cell.gates(cell.product(previous, slice(0, 2)), 2)
    z = cell.activate(0, cell.add(x_update, update))
    r = cell.activate(0, cell.add(x_reset, reset))
    if cell.flag:
        recurrent = cell.mul(r, cell.add(hidden, bias))
    else:
        recurrent = cell.add(cell.product(cell.mul(r, previous), slice(2, 3)), bias)
    new = cell.activate(1, cell.add(x_hidden, recurrent))
    # (1 - z) * new + z * previous
    return [cell.add(new, cell.mul(z, combine(cell.build, "Sub", previous, new)))]


def _lstm_step(cell: _Cell, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    """Gates in the order input, output, forget, cell."""
    previous, memory = state
    i, o, f, c = cell.gates(cell.add(x, cell.product(previous, slice(None))), 4)
    peep = np.split(cell.weights.peepholes, 3) if cell.weights.peepholes is not None else None
    if peep is not None:
        i, f = cell.add(i, cell.mul(memory, peep[0])), cell.add(f, cell.mul(memory, peep[2]))
    entering = cell.activate(0, i)
    one = np.ones((), x.dtype)
    kept = combine(cell.build, "Sub", one, entering) if cell.flag else cell.activate(0, f)
    memory = cell.add(cell.mul(kept, memory), cell.mul(entering, cell.activate(1, c)))
    if peep is not None:
        o = cell.add(o, cell.mul(memory, peep[1]))
    return [cell.mul(cell.activate(0, o), cell.activations[2](cell.build, memory)), memory]


_KINDS: dict[str, tuple[int, Callable[[_Cell, Tensor, list[Tensor]], list[Tensor]], list[str], str]] = {
    "RNN": (1, _rnn_step, ["Tanh"], ""),
    "GRU": (3, _gru_step, ["Sigmoid", "Tanh"], "linear_before_reset"),
    "LSTM": (4, _lstm_step, ["Sigmoid", "Tanh", "Tanh"], "input_forget"),
}


def lower_recurrent(build: Builder, node: Node, operands: Sequence[Operand]) -> Sequence[Operand]:
    gates, step, defaults, flag = _KINDS[node.op]
    x = as_value(build, _present(operands[0]))
    by_batch = bool(node.attributes.get("layout", 0))
    if by_batch:
        x = _value(compose(build, "Transpose", x, perm=[1, 0, 2]))
    steps, batch = x.shape[:2]
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    backwards = directions[node.attributes.get("direction", "forward")]
    if steps * len(backwards) > MOST_STEPS:
        raise UnsupportedError(f"a sequence of {steps} steps")
    lengths = given(operands, 4)
    if isinstance(lengths, np.ndarray) and (lengths == steps).all():
        lengths = None
    names = list(node.attributes.get("activations") or defaults * len(backwards))
    activations = list(_activations(node, names))
    states = [_initial(build, given(operands, i), by_batch) for i in (5, 6)][: 2 if node.op == "LSTM" else 1]
    outputs, last = [], []
    for d, backward in enumerate(backwards):
        weights = _weights(operands, d, gates)
        cell = _Cell(
            build,
            weights,
            activations[d * len(defaults) : (d + 1) * len(defaults)],
            node.attributes.get("clip"),
            bool(node.attributes.get(flag, 0)),
        )
        zeros = np.zeros((batch, weights.hidden), x.dtype)
        state = [zeros if s is None else _entry(build, s, d) for s in states]
        seen, state = _unrolled(cell, step, x, state, backward, lengths)
        outputs.append(_joined(build, seen, 0))
        last.append(state)
    y = _joined(build, outputs, 1)
    finals = [_joined(build, [s[i] for s in last], 0) for i in range(len(states))]
    if by_batch:
        y = compose(build, "Transpose", y, perm=[2, 0, 1, 3])
        finals = [compose(build, "Transpose", f, perm=[1, 0, 2]) for f in finals]
    return [y, *finals]


def _unrolled(
    cell: _Cell,
    step: Callable[[_Cell, Tensor, list[Tensor]], list[Tensor]],
    x: Value,
    state: list[Tensor],
    backward: bool,
    lengths: Operand,
) -> tuple[list[Tensor], list[Tensor]]:
    """The hidden state after every step, in the order of the sequence, and the state after the last."""
    build, w = cell.build, cell.weights
    bias = w.input_bias.copy()
    if step is _gru_step:  # its hidden gate adds the bias of the state later
        bias[: 2 * w.hidden] += w.state_bias[: 2 * w.hidden]
    else:
        bias += w.state_bias
    product = compose(build, "MatMul", x, np.ascontiguousarray(w.w.T))
    projected = _value(elementwise(build, "Add", _value(product), bias))
    inputs = _steps(build, projected)
    seen: list[Tensor] = [np.zeros(())] * len(inputs)
    for t in range(len(inputs))[:: -1 if backward else 1]:
        new = step(cell, inputs[t], state)
        if lengths is None:
            state, seen[t] = new, new[0]
            continue
        # beyond its length a sequence keeps its state and gives zeros
        going = _going(build, lengths, t)
        nothing = np.zeros((), x.dtype)
        seen[t] = where(build, going, new[0], nothing, x.dtype)
        state = [where(build, going, n, s, x.dtype) for n, s in zip(new, state, strict=True)]
    return seen, state


def _going(build: Builder, lengths: Tensor, t: int) -> Tensor:
    """`[N, 1]`: whether a sequence has a step t."""
    if isinstance(lengths, Value):
        return compare(build, "Greater", build.shaped(lengths, (*lengths.shape, 1)), t)
    return lengths[:, None] > t


def _steps(build: Builder, x: Value) -> list[Tensor]:
    """`[T, N, I]` as T values `[N, I]`."""
    if x.shape[0] == 1:
        return [build.shaped(x, x.shape[1:])]
    node = Node("Split", "", OPSET, {"axis": 0, "num_outputs": x.shape[0]}, ("",) * x.shape[0])
    parts = OPERATORS["Split"](build, node, [x])
    return [build.shaped(_value(p), x.shape[1:]) for p in parts]


def _joined(build: Builder, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Values side by side along a new axis."""
    shape = parts[0].shape
    wide = [compose(build, "Reshape", p, np.array([*shape[:axis], 1, *shape[axis:]])) for p in parts]
    return wide[0] if len(wide) == 1 else compose(build, "Concat", *wide, axis=axis)


def _entry(build: Builder, stack: Tensor, d: int) -> Tensor:
    """Direction d of an initial state."""
    return stack[d] if isinstance(stack, np.ndarray) else compose(build, "Gather", stack, np.array(d), axis=0)


def _initial(build: Builder, state: Operand, by_batch: bool) -> Tensor | None:
    return compose(build, "Transpose", state, perm=[1, 0, 2]) if by_batch and state is not None else state


def _weights(operands: Sequence[Operand], d: int, gates: int) -> _Weights:
    w, r = (constant(operands[i], "a weight")[d] for i in (1, 2))
    bias = given(operands, 3)
    halves = np.zeros((2, r.shape[0]), r.dtype) if bias is None else constant(bias, "a bias")[d].reshape(2, -1)
    peepholes = given(operands, 7)
    return _Weights(
        w, r, halves[0], halves[1], None if peepholes is None else constant(peepholes, "a peephole weight")[d]
    )


# alpha and beta where the node gives none; None: the activation has no such parameter
_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0),
    "Elu": (1.0, None),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, None),
    "ScaledTanh": (1.0, 1.0),
    "ThresholdedRelu": (1.0, None),
}


def _activations(node: Node, names: Sequence[str]) -> Iterator[Activation]:
    """The activations by name; each that has an alpha or a beta takes the next of the node's list."""
    alphas, betas = (iter(node.attributes.get(f"activation_{name}") or []) for name in ("alpha", "beta"))
    known = {n.lower(): n for n in [*_DEFAULTS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"]}
    for name in names:
        if name.lower() not in known:
            raise UnsupportedError(f"activation {name!r}")
        alpha, beta = _DEFAULTS.get(known[name.lower()], (None, None))
        yield _activation(
            known[name.lower()],
            None if alpha is None else next(alphas, alpha),
            None if beta is None else next(betas, beta),
        )


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    def run(build: Builder, x: Tensor) -> Tensor:
        x = as_value(build, x)
        if name == "Affine":
            return elementwise(build, "Add", elementwise(build, "Mul", x, alpha or 0.0), beta or 0.0)
        if name == "ScaledTanh":
            inner = elementwise(build, "Tanh", elementwise(build, "Mul", x, beta or 0.0))
            return elementwise(build, "Mul", inner, alpha or 0.0)
        parameters = {k: v for k, v in (("alpha", alpha), ("beta", beta)) if v is not None}
        return compose(build, name, x, **parameters)

    return run


def _present(operand: Operand) -> Tensor:
    assert operand is not None
    return operand


def _value(operand: Operand) -> Value:
    assert isinstance(operand, Value)
    return operand


LOWERINGS = dict.fromkeys(_KINDS, lower_recurrent)
PRIMITIVES: dict[str, Any] = {}
