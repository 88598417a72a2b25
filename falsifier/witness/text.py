"""Witnesses as text, in the format of the query's version, and back, bit by bit.

1.0: `((X_0 0.5)` .. `(Y_0 1.25))`, one pair a line. 2.0 (standard section 5): per declared variable a header
`name type [d0,d1]` and one value a line. Decimals are the shortest that read back to the same float64; no exponents.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.query.tree import Kind
from falsifier.records import record

if TYPE_CHECKING:
    from falsifier.query.tree import Query, Variable
    from falsifier.witness.outcome import Witness

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIR = rf"\(\s*([XY])_(\d+)\s+({_NUMBER})\s*\)\s*"
_HEADER = r"(\S+)\s+(\S+)\s+\[([\d,\s]*)\]"
_WHOLE = r"[-+]?\d+"


@record
class Assignment:
    """The values that a text gives, flat per declared input and output: float64, or 64-bit integers where whole.

    Those of hidden variables are read and left: they follow from the inputs.
    """

    inputs: list[NDArray[Any]]
    outputs: list[NDArray[Any]]


def write_witness(query: Query, witness: Witness) -> str:
    """The text after the line `sat`, with a newline at its end."""
    if query.version[0] == 1:
        pairs = [
            f"({name}_{i} {value})"
            for name, arrays in (("X", witness.inputs), ("Y", witness.outputs))
            for i, value in enumerate(decimals(np.concatenate([array.ravel() for array in arrays])))
        ]
        return "(" + "\n".join(pairs) + ")\n"
    lines: list[str] = []
    for variable, values in witness.by_variable(query):
        lines.append(f"{variable.name} {variable.dtype} [{','.join(map(str, variable.shape))}]")
        lines.extend(decimals(values))
    return "\n".join(lines) + "\n"


def decimals(values: NDArray[Any]) -> list[str]:
    """Each value as text that reads back to the same number.

    What is not finite has no numeral: infinite outputs become the largest value of the type, NaN becomes 0.
    """
    if values.dtype.kind != "f":
        return [str(int(value)) for value in values.ravel().tolist()]
    wide = np.nan_to_num(values.ravel()).astype(np.float64)
    texts = list(map(repr, wide.tolist()))
    return [np.format_float_positional(float(t), trim="0") if "e" in t else t for t in texts]


def read_witness(query: Query, text: str, origin: str = "witness") -> Assignment:
    """Values from the text of a witness, bare or after a line `sat`.

    Raises InputError for text that is not a witness of this query.
    """
    body = text.strip()
    first, _, rest = body.partition("\n")
    if first.strip() == "sat":
        body = rest.strip()
    if not body:
        raise InputError(f"{origin}: holds no witness")
    return _read_v1(query, body, origin) if query.version[0] == 1 else _read_v2(query, body, origin)


def _read_v1(query: Query, body: str, origin: str) -> Assignment:
    if not (body.startswith("(") and body.endswith(")")):
        raise InputError(f"{origin}: a 1.0 witness has the form ((X_0 1.0) .. (Y_0 2.0))")
    given: dict[str, list[str]] = {"X": [], "Y": []}
    form = re.compile(_PAIR)
    at, end = len(body) - len(body[1:].lstrip()), len(body) - 1
    while at < end:
        pair = form.match(body, at, end)
        if not pair:
            line = body.count("\n", 0, at) + 1
            raise InputError(f"{origin}: pair {line}: expected one like (X_0 1.0), found {body[at : at + 20]!r}")
        name, index, number = pair.groups()
        if int(index) != len(given[name]) or (name == "X" and given["Y"]):
            raise InputError(f"{origin}: {name}_{index} is out of order")
        given[name].append(number)
        at = pair.end()
    network = query.networks[0]
    expected = sum(v.size for v in network.inputs)
    if len(given["X"]) != expected:
        raise InputError(f"{origin}: {counted(len(given['X']), 'value')} of X, the query declares {expected}")
    return Assignment([_numbers(given["X"])], [_numbers(given["Y"])])


def _read_v2(query: Query, body: str, origin: str) -> Assignment:
    lines = [(number, line) for number, line in enumerate(map(str.strip, body.splitlines()), 1) if line]
    assignment = Assignment([], [])
    at = 0
    for variable in query.variables:
        number, line = lines[at] if at < len(lines) else (lines[-1][0] + 1, "the end of the file")
        header = re.fullmatch(_HEADER, line)
        if not header or header[1] != variable.name:
            raise InputError(f"{origin}: line {number}: expected the header of {variable.name}, found {line[:40]!r}")
        _check_header(variable, header[2], header[3], f"{origin}: line {number}")
        block = [value for _, value in lines[at + 1 : at + 1 + variable.size]]
        if variable.dtype == "bool":
            block = [{"true": "1", "false": "0"}.get(value.lower(), value) for value in block]
        if len(block) < variable.size or not all(re.fullmatch(_NUMBER, value) for value in block):
            raise InputError(f"{origin}: line {number}: {variable.name} needs {variable.size} numbers, one a line")
        if variable.kind is not Kind.HIDDEN:
            (assignment.inputs if variable.kind is Kind.INPUT else assignment.outputs).append(_numbers(block))
        at += 1 + variable.size
    if at < len(lines):
        raise InputError(f"{origin}: line {lines[at][0]}: text after the last value")
    return assignment


def _check_header(variable: Variable, dtype: str, shape: str, place: str) -> None:
    if dtype.lower() not in (variable.dtype, "real"):
        raise InputError(f"{place}: {variable.name} has type {dtype}, declared {variable.dtype}")
    dimensions = tuple(int(d) for d in shape.split(",") if d.strip())
    if dimensions != variable.shape:
        raise InputError(f"{place}: {variable.name} has shape {list(dimensions)}, declared {list(variable.shape)}")


def _numbers(texts: list[str]) -> NDArray[Any]:
    """Texts as int64 or uint64 where all are whole and fit, which keeps them exact beyond 2^53, else as float64."""
    if texts and all(map(re.compile(_WHOLE).fullmatch, texts)):
        whole = [int(t) for t in texts]
        for kind in (np.int64, np.uint64):
            limits = np.iinfo(kind)
            if min(whole) >= limits.min and max(whole) <= limits.max:
                return np.array(whole, dtype=kind)
    return np.array([float(t) for t in texts], dtype=np.float64)
