"""A program and its adjoint cut in two, for seeds that depend on the outputs.

The forward half gives the outputs and what the reverse half reads of it, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from falsifier.network.program import Primitive, Program

HOST_INPUTS: dict[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Expand": (1,),
    "MaxUnpool": (2,),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that say how a primitive works (shapes, axes, counts) rather than carry data: closures read them as Python
numbers, so they stay in host memory, where reading them makes no accelerator wait."""


def halves(program: Program, forward: Iterable[str], wanted: Iterable[str]) -> tuple[list[str], list[Primitive]]:
    """The values of the forward half that the reverse half reads, and the primitives of the reverse half, in order.

    `forward`: what the forward half has, inputs included; `wanted`: the results of the reverse half. Lane counts and
    what is computed from them are not kept but computed again.
    """
    boundary = set(forward) - host_values(program.primitives)
    reverse = required(program.primitives, boundary, wanted)
    return list(dict.fromkeys(name for p in reverse for name in p.inputs if name in boundary)), reverse


def host_values(primitives: Iterable[Primitive]) -> set[str]:
    """The values that live in host memory on every device: lane counts, and what is computed from them."""
    names: set[str] = set()
    for primitive in primitives:
        said = HOST_INPUTS.get(primitive.op, ())
        if primitive.op == "Shape" or any(x in names for i, x in enumerate(primitive.inputs) if i not in said):
            names.update(primitive.outputs)
    return names


def required(primitives: Sequence[Primitive], inputs: Iterable[str], wanted: Iterable[str]) -> list[Primitive]:
    """The primitives, in order, that compute `wanted` once `inputs` are given."""
    given = set(inputs)
    open_names = set(wanted) - given
    chosen: list[Primitive] = []
    for primitive in reversed(primitives):
        if open_names.intersection(primitive.outputs):
            chosen.append(primitive)
            open_names.difference_update(primitive.outputs)
            open_names.update(name for name in primitive.inputs if name and name not in given)
    return chosen[::-1]
