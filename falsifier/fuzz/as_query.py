"""The query whose witness a hit is: VNN-LIB 2.0, over the whole ball or box that was searched."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.hit import Hit
from falsifier.network import Network
from falsifier.network.reference import TensorInfo

Array = NDArray[Any]

QUERY, WITNESS, REASON = "query.vnnlib", "witness.txt", "no_query.txt"


def write_query(hit: Hit, fuzzer: Fuzzer, folder: Path) -> Path | None:
    """Write `query.vnnlib` and `witness.txt` into a hit's folder, or why there is no query; returns the query's path.

    Raises InputError where it cannot be written.
    """
    text = as_query(hit, fuzzer)
    try:
        if text is None:
            reason = "no query says this: its formula would be over values that satisfy no comparison, or over texts\n"
            (folder / REASON).write_text(reason)
            return None
        (folder / QUERY).write_text(text)
        (folder / WITNESS).write_text(_witness(hit, fuzzer))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    return folder / QUERY


def _networks(hit: Hit, fuzzer: Fuzzer) -> list[Network]:
    return [model.network for model in fuzzer.objective.reproducer(hit.point, hit.finding).models.values()]


def as_query(hit: Hit, fuzzer: Fuzzer) -> str | None:
    """The query's text, None where the objective has no formula (NaN satisfies no comparison).

    With two networks the inputs of the second are tied to those of the first, which alone have bounds.
    """
    atoms = getattr(fuzzer.objective, "atoms", None)
    if atoms is None:
        return None
    networks = _networks(hit, fuzzer)
    lines, outputs, inputs = ["(vnnlib-version <2.0>)"], [], []
    for i, network in enumerate(networks):
        ins, outs = network.reference.inputs, network.reference.outputs
        lines.append(f"(declare-network {'fg'[i]}")
        lines += [f"    (declare-input X{i}_{k} {_type(v)} {_shape(v)})" for k, v in enumerate(ins)]
        lines += [f"    (declare-output Y{i}_{k} {_type(v)} {_shape(v)})" for k, v in enumerate(outs)]
        lines.append(")")
        inputs.append([_element(f"X{i}_{k}", v, e) for k, v in enumerate(ins) for e in range(v.size)])
        outputs += [_element(f"Y{i}_{k}", v, e) for k, v in enumerate(outs) for e in range(v.size)]
    formula = atoms(hit.finding, outputs)
    if formula is None:
        return None
    lower, upper = _ball(hit, fuzzer)
    for name, low, high, whole in zip(inputs[0], lower, upper, fuzzer.space.lattice, strict=True):
        lines.append(f"(assert (>= {name} {_number(low, whole)}))")
        lines.append(f"(assert (<= {name} {_number(high, whole)}))")
    for others in inputs[1:]:
        lines += [f"(assert (== {a} {b}))" for a, b in zip(inputs[0], others, strict=True)]
    lines.append(f"(assert {formula})")
    return "\n".join(lines) + "\n"


def _ball(hit: Hit, fuzzer: Fuzzer) -> tuple[Array, Array]:
    """What was searched around the hit's start: the ranges, and the radius where there is one; exact in float64."""
    space = fuzzer.space
    centre = hit.ancestor.astype(np.float64)
    lower = np.maximum(space.lower.astype(np.float64), centre - space.radius)
    upper = np.minimum(space.upper.astype(np.float64), centre + space.radius)
    return lower, upper


def _type(info: TensorInfo) -> str:
    return str(info.dtype)


def _shape(info: TensorInfo) -> str:
    return "[" + ",".join(str(d) for d in info.shape) + "]"


def _element(name: str, info: TensorInfo, flat: int) -> str:
    if not info.shape:
        return name
    return f"{name}[{','.join(str(int(i)) for i in np.unravel_index(flat, info.shape))}]"


def _number(value: float, whole: Any) -> str:
    """A decimal without an exponent; of a float variable it has a point."""
    if whole:
        return str(int(value))
    text = f"{Decimal(repr(float(value))):f}"
    return text if "." in text else f"{text}.0"


def _witness(hit: Hit, fuzzer: Fuzzer) -> str:
    """The hit as a 2.0 assignment, outputs as the originals give them."""
    lines = ["sat"]
    for i, network in enumerate(_networks(hit, fuzzer)):
        outputs = network.reference.run_flat(hit.point.astype(network.reference.dtype))
        for letter, infos, values in (
            ("X", network.reference.inputs, hit.point),
            ("Y", network.reference.outputs, outputs),
        ):
            at = 0
            for k, info in enumerate(infos):
                lines.append(f"{letter}{i}_{k} {_type(info)} {_shape(info)}")
                lines += [_value(v, info) for v in values[at : at + info.size]]
                at += info.size
    return "\n".join(lines) + "\n"


def _value(value: Any, info: TensorInfo) -> str:
    return str(int(value)) if info.dtype.kind in "iub" else f"{float(value):.17g}"
