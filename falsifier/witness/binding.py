"""Which tensor of which network a declared variable is: by position, checked for number, size and element type."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.input_file import MODEL, limit_or, read_bytes
from falsifier.query.tree import Kind, Variable
from falsifier.records import record, replaced

if TYPE_CHECKING:
    from falsifier.network.reference import Reference
    from falsifier.query.tree import NetworkDeclaration, Query

Model = TypeVar("Model")

_REAL = "real"  # the declared type that leaves the element type to the model


class CastError(ValueError):
    """A value is not one that the element type of its input can hold."""


@record
class Binding:
    """The declarations of a query and the reference of each of its networks, in the query's order."""

    query: Query
    references: tuple[Reference, ...]

    def split(self, point: NDArray[Any]) -> list[NDArray[Any]]:
        """A flat point `[n]` over the inputs of all networks -> one array per declared input, in the networks' types.

        Raises CastError for a value that is not finite or does not fit its type, ValueError for the wrong length.
        """
        tensors = [tensor for reference in self.references for tensor in reference.inputs]
        sizes = [int(np.prod(tensor.shape)) for tensor in tensors]
        if point.shape != (sum(sizes),):
            raise ValueError(f"a point of shape {point.shape}, the networks have {sum(sizes)} inputs")
        pieces = np.split(point, np.cumsum(sizes)[:-1])
        return [cast(piece, tensor.dtype, tensor.name) for piece, tensor in zip(pieces, tensors, strict=True)]

    def cast(self, values: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """One array per declared input, of any type -> the values flat in the networks' types. Raises as `split`."""
        pairs = [
            (variable, tensor)
            for network, reference in zip(self.query.networks, self.references, strict=True)
            for variable, tensor in zip(network.inputs, reference.inputs, strict=True)
        ]
        return [
            cast(np.asarray(value).ravel(), tensor.dtype, variable.name)
            for value, (variable, tensor) in zip(values, pairs, strict=True)
        ]


def bind(query: Query, references: Sequence[Reference]) -> Binding:
    """Match every declared variable with its tensor.

    Raises InputError where numbers, sizes or element types differ, from the declared ones or between two models that
    are declared isomorphic.
    """
    if len(references) != len(query.networks):
        raise InputError(f"{query.origin}: declares {len(query.networks)} networks, {len(references)} are given")
    by_name = dict(zip((network.name for network in query.networks), references, strict=True))
    for network, reference in zip(query.networks, references, strict=True):
        if query.version[0] == 1:
            _match_v1(query, network, reference)
        else:
            _match_v2(query, network, reference)
            if network.isomorphic_to is not None:
                _match_isomorphic(query, network, reference, by_name[network.isomorphic_to])
    if query.version[0] == 1 and not sum(variable.size for variable in query.networks[0].outputs):
        query = _with_outputs(query, references[0].m)
    return Binding(query, tuple(references))


def assign(query: Query, given: Sequence[tuple[str | None, Model]]) -> list[Model]:
    """The model of every declared network, in the query's order, from models given by name or (None) without one.

    A network that is `equal-to` another takes its model; its own may be given all the same if it is the same one. A 1.0
    query names no network: its one model may be given under any name.
    Raises InputError for models that are missing or superfluous, and for networks that share a name.
    """
    declared = query.networks
    _check_names(query)
    if query.version[0] == 1 or (len(given) == 1 and given[0][0] is None):
        if query.version[0] == 1 and len(given) != 1:
            raise InputError(f"{query.origin}: a 1.0 query has one network, {len(given)} are given")
        own = [network for network in declared if network.equal_to is None]
        if len(own) != 1:
            raise InputError(
                f"{query.origin}: declares {', '.join(n.name for n in own)}: give each network as NAME=FILE"
            )
        return [given[0][1]] * len(declared)
    by_name = dict(given)
    if None in by_name:
        raise InputError(f"{query.origin}: declares {counted(len(declared), 'network')}: give each as NAME=FILE")
    names = [network.name for network in declared]
    for name in by_name:
        if name not in names:
            raise InputError(f"{query.origin}: declares no network {name!r}, only {', '.join(names)}")
    models = []
    for network in declared:
        original = network.equal_to or network.name
        if original not in by_name:
            raise InputError(f"{query.origin}: no model is given for network {original}: add --network {original}=FILE")
        if network.name in by_name and not _same(by_name[network.name], by_name[original]):
            raise InputError(f"{query.origin}: {network.name} is equal to {original} but another model is given for it")
        models.append(by_name[original])
    return models


def _check_names(query: Query) -> None:
    names = [network.name for network in query.networks]
    for network in query.networks:
        if names.count(network.name) > 1:
            raise InputError(f"{query.origin}: declares two networks named {network.name}: rename one")
        if network.equal_to is not None and network.isomorphic_to is not None:
            raise InputError(
                f"{query.origin}: network {network.name} is declared both equal-to {network.equal_to} and "
                f"isomorphic-to {network.isomorphic_to}: keep one"
            )


def _same(one: Any, other: Any) -> bool:
    """Whether two models are the same: the same object, or files with the same content."""
    if one is other:
        return True
    if isinstance(one, str | os.PathLike) and isinstance(other, str | os.PathLike):
        with suppress(OSError, InputError):  # the one that cannot be read is told about when it is loaded
            limit = limit_or(MODEL)
            return os.path.samefile(one, other) or read_bytes(one, limit) == read_bytes(other, limit)
    return bool(one == other)


def cast(values: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Values as `dtype`. Raises CastError where one is not finite, not whole, or out of range."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise CastError(f"{name}: a value is not finite")
    with np.errstate(all="ignore"):
        typed = values.astype(dtype)
        if dtype.kind == "f":
            if not np.isfinite(typed).all():
                raise CastError(f"{name}: a value overflows {dtype}")
        elif not (typed.astype(values.dtype) == values).all():
            raise CastError(f"{name}: a value is not a {dtype}")
    return typed


def _with_outputs(query: Query, m: int) -> Query:
    """A 1.0 query about inputs alone need not declare the outputs: the same query with them."""
    outputs = (Variable("Y", Kind.OUTPUT, _REAL, (m,)),)
    return replaced(query, networks=(replaced(query.networks[0], outputs=outputs),))


def _match_v1(query: Query, network: NetworkDeclaration, reference: Reference) -> None:
    """VNN-LIB 1.0 knows one input X and one output Y, flat."""
    if len(reference.inputs) != 1:
        raise InputError(
            f"{query.origin}: v1 properties need a single input, the network has {len(reference.inputs)}: "
            "write the query in VNN-LIB 2.0"
        )
    if len(reference.outputs) != 1:
        raise InputError(
            f"{query.origin}: v1 properties need a single output, the network has {len(reference.outputs)}: "
            "write the query in VNN-LIB 2.0"
        )
    for variables, size, what in (
        (network.inputs, reference.n, "inputs X"),
        (network.outputs, reference.m, "outputs Y"),
    ):
        declared = sum(variable.size for variable in variables)
        if declared != size and not (what == "outputs Y" and declared == 0):
            raise InputError(f"{query.origin}: declares {declared} {what}, the network has {size}")


def _match_v2(query: Query, network: NetworkDeclaration, reference: Reference) -> None:
    for variables, tensors, what in (
        (network.inputs, reference.inputs, "inputs"),
        (network.hidden, reference.hidden, "hidden tensors"),
        (network.outputs, reference.outputs, "outputs"),
    ):
        if len(variables) != len(tensors):
            raise InputError(
                f"{query.origin}: network {network.name} declares {len(variables)} {what}, its model has {len(tensors)}"
            )
        for variable, tensor in zip(variables, tensors, strict=True):
            if variable.size != int(np.prod(tensor.shape)):
                raise InputError(
                    f"{query.origin}: {variable.name} has shape {list(variable.shape)}, "
                    f"the ONNX tensor {tensor.name} has {list(tensor.shape)}"
                )
            _match_type(query, variable, tensor.dtype)


def _match_isomorphic(query: Query, network: NetworkDeclaration, mine: Reference, its: Reference) -> None:
    """Isomorphic networks take and give tensors of the same types; that their numbers and sizes agree follows from
    what is declared.
    """
    for variable, a, b in zip(
        (*network.inputs, *network.outputs), (*mine.inputs, *mine.outputs), (*its.inputs, *its.outputs), strict=True
    ):
        if a.dtype != b.dtype:
            raise InputError(
                f"{query.origin}: {network.name} is isomorphic to {network.isomorphic_to}, but its tensor {a.name} "
                f"({variable.name}) has {a.dtype.name} where {b.name} has {b.dtype.name}: give models of the same types"
            )


def _match_type(query: Query, variable: Variable, dtype: np.dtype[Any]) -> None:
    if variable.dtype not in (_REAL, dtype.name):
        raise InputError(
            f"{query.origin}: {variable.name} is declared {variable.dtype}, the ONNX tensor has {dtype.name}: "
            f"declare it {'' if dtype.kind == 'b' else f'{dtype.name} or '}real"
        )
