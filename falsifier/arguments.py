"""What a caller may hand in as networks, query and device, and what the pipeline makes of it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.network import Network, load
from falsifier.query import parse, read
from falsifier.query.tree import NetworkDeclaration, Query


def as_query(query: Any) -> Query:
    """A query from a path, from text (what holds a bracket and is no file), or as it is. Raises InputError."""
    if isinstance(query, Query):
        return query
    if isinstance(query, bytes):
        return parse(query)
    if not isinstance(query, str | os.PathLike):
        raise InputError(f"a query is a path, the text of a VNN-LIB file or a parsed Query, not {type(query).__name__}")
    if isinstance(query, str) and "(" in query and not os.path.exists(query):
        return parse(query)
    return read(query)


def as_pairs(networks: Any) -> list[tuple[str | None, Any]]:
    """(name, model) pairs from a mapping, from pairs, or from one model, whose name is None then."""
    if isinstance(networks, Mapping):
        return list(networks.items())
    if isinstance(networks, Sequence) and not isinstance(networks, str | bytes):
        return [(name, model) for name, model in networks]
    return [(None, networks)]


def as_networks(models: Sequence[Any], query: Query, made: dict[Any, Network] | None = None) -> list[Network]:
    """The network of every declaration of a query, from its model (see `as_network`).

    Declarations that ask for the same things of the same model share one network, and so do queries that are given the
    same dictionary `made`. Raises InputError.
    """
    made = {} if made is None else made
    networks = []
    for model, declaration in zip(models, query.networks, strict=True):
        same = model if isinstance(model, str | os.PathLike) else id(model)
        key = (same, query.version[0] > 1, tuple(v.shape for v in declaration.inputs), _hidden(declaration))
        if key not in made:
            made[key] = as_network(model, declaration, query)
        networks.append(made[key])
    return networks


def as_network(model: Any, declaration: NetworkDeclaration, query: Query) -> Network:
    """The network of a declaration, from a path, bytes, a ModelProto, a torch module or a `Network`; with the shapes
    and the hidden tensors of a 2.0 query.

    Raises InputError.
    """
    shapes = [variable.shape for variable in declaration.inputs]
    if hasattr(model, "state_dict"):
        from falsifier.network.from_torch import exported

        model = exported(model, shapes)
    network = model if isinstance(model, Network) else load(model)
    if query.version[0] == 1:
        return network
    return network.shaped(shapes, _hidden(declaration))


def _hidden(declaration: NetworkDeclaration) -> tuple[str, ...]:
    """The tensors that its hidden variables stand for: those of trees made by hand may be named like them."""
    return tuple(variable.onnx_name or variable.name for variable in declaration.hidden)


@dataclass(frozen=True)
class Limits:
    """Budgets of the inputs, flat, and where they come from."""

    radius: NDArray[np.float64]
    origin: str


def as_budgets(budgets: Any) -> Limits | None:
    """Budgets from the path of a numpy file or from an array; None stays None. Raises InputError."""
    if budgets is None or isinstance(budgets, Limits):
        return budgets
    if isinstance(budgets, str | os.PathLike):
        from falsifier.spec.budgets import read_budgets

        return Limits(read_budgets(Path(budgets)), str(budgets))
    from falsifier.spec.budgets import as_budget

    return Limits(as_budget(budgets, "budgets"), "budgets")


def demand_seconds(timeout: Any, name: str = "timeout") -> None:
    """Raise InputError for a time limit that is no number; one that has passed already is none of that."""
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or math.isnan(float(timeout)):
        raise InputError(f"{name} {timeout!r}: give a number of seconds")


def demand_count(name: str, value: Any, least: int = 1) -> None:
    """Raise InputError for what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} {value!r}: give a whole number, {least} or more")


def demand_workers(workers: Any) -> None:
    """Raise InputError for what is no number of processes."""
    number = isinstance(workers, int) and not isinstance(workers, bool) and workers >= 1
    if not (number or workers == "auto"):
        raise InputError(f"workers {workers!r}: give a number of processes, this one included, or auto")


def demand_device(device: str) -> None:
    """Raise InputError for a device that cannot be had, before an easy instance is answered without it."""
    if device in ("auto", "cpu"):
        return
    if not re.fullmatch(r"cuda(:[0-9]+)?", device):
        raise InputError(f"unknown device {device!r}: use auto, cpu, cuda or cuda:i")
    try:
        from falsifier.network.torch_device import resolve_device

        resolve_device(device)
    except ImportError as error:  # torch is imported inside
        raise InputError(f"device {device!r} needs torch, which comes with the extra [torch]: {error}") from None
