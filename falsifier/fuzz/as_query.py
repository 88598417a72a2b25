"""The query whose witness a hit is: VNN-LIB 2.0, over the whole ball or box that was searched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.hit import Hit
from falsifier.fuzz.objectives import Scripted
from falsifier.network import Network
from falsifier.output_file import replace
from falsifier.query.tree import Kind, NetworkDeclaration, Query, Variable
from falsifier.query.write import Names, write
from falsifier.witness.text import decimals

Array = NDArray[Any]

QUERY, WITNESS, REASON = "query.vnnlib", "witness.txt", "no_query.txt"


def write_query(hit: Hit, fuzzer: Fuzzer, folder: Path) -> Path | None:
    """Write `query.vnnlib` and `witness.txt` into a hit's folder, or why there is no query; returns the query's path.

    Raises InputError where it cannot be written.
    """
    text = as_query(hit, fuzzer)
    try:
        if text is None:
            reason = "no query says this: it is about NaN or an infinity, which no comparison says, or about texts\n"
            replace(folder / REASON, reason)
            return None
        replace(folder / QUERY, text)
        replace(folder / WITNESS, _witness(hit, fuzzer))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    return folder / QUERY


def as_query(hit: Hit, fuzzer: Fuzzer) -> str | None:
    """The query's text, None where the objective has no formula (NaN satisfies no comparison).

    With two networks the inputs of the second are tied to those of the first, which alone have bounds.
    """
    if not isinstance(fuzzer.objective, Scripted):
        return None
    query = _declarations(_networks(hit, fuzzer))
    names = Names(query)
    inputs: list[list[str]] = [[] for _ in query.networks]
    outputs = []
    for network, variable, at in query.offsets():
        elements = [names(at + e) for e in range(variable.size)]
        if variable.kind is Kind.INPUT:
            inputs[query.networks.index(network)] += elements
        else:
            outputs += elements
    formula = fuzzer.objective.atoms(hit.finding, outputs)
    if formula is None:
        return None
    lines = []
    lower, upper = (_numbers(end, fuzzer.space.lattice) for end in fuzzer.space.ball(hit.ancestor))
    for name, low, high in zip(inputs[0], lower, upper, strict=True):
        lines += [f"(assert (>= {name} {low}))", f"(assert (<= {name} {high}))"]
    for others in inputs[1:]:
        lines += [f"(assert (== {a} {b}))" for a, b in zip(inputs[0], others, strict=True)]
    lines.append(f"(assert {formula})")
    return write(query) + "\n".join(lines) + "\n"


def _networks(hit: Hit, fuzzer: Fuzzer) -> list[Network]:
    return [model.network for model in fuzzer.objective.reproducer(hit.point, hit.finding).models.values()]


def _declarations(networks: Sequence[Network]) -> Query:
    """The networks, `f` and `g`, without assertions."""
    declared = []
    for i, network in enumerate(networks):
        inputs, outputs = (
            tuple(Variable(f"{letter}{i}_{k}", kind, str(v.dtype), v.shape) for k, v in enumerate(infos))
            for letter, kind, infos in (
                ("X", Kind.INPUT, network.reference.inputs),
                ("Y", Kind.OUTPUT, network.reference.outputs),
            )
        )
        declared.append(NetworkDeclaration("fg"[i], inputs, outputs))
    return Query((2, 0), tuple(declared), ())


def _numbers(values: Array, whole: Array) -> list[str]:
    """Decimals; of integer variables without a point."""
    return [text.partition(".")[0] if w else text for text, w in zip(decimals(values), whole, strict=True)]


def _witness(hit: Hit, fuzzer: Fuzzer) -> str:
    """The hit as a 2.0 assignment, outputs as the originals give them."""
    networks = _networks(hit, fuzzer)
    slots = []
    for network in networks:
        slots += [hit.point, network.reference.run_flat(hit.point.astype(network.reference.dtype))]
    flat = np.concatenate(slots)
    lines = ["sat"]
    for _, variable, at in _declarations(networks).offsets():
        lines.append(f"{variable.name} {variable.dtype} [{','.join(map(str, variable.shape))}]")
        lines += decimals(flat[at : at + variable.size].astype(variable.dtype))
    return "\n".join(lines) + "\n"
