"""What an instance asked, read again from the files that the record names; or why that is no longer possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.campaign.dataset import DataSet, Property, Sample, fitted, read_samples, setting_of
from falsifier.campaign.plan import Job, QueryFile, Question, arranged
from falsifier.campaign.report.data import Row
from falsifier.errors import InputError
from falsifier.instance import NamedNetwork
from falsifier.network import load

if TYPE_CHECKING:
    from falsifier.query.tree import Query


@dataclass(frozen=True)
class Asked:
    """The query; sample: the flat input `[n]` that it is about, where it was made for one."""

    query: Query
    sample: NDArray[np.float64] | None = None


def asked(row: Row, command: Mapping[str, Any]) -> Asked:
    """The question of a row. command: as the record has it. Raises InputError where a file has changed or is gone."""
    for _, path in row.networks:
        demand_file(path)
    if row.query is not None:
        demand_file(row.query)
        file = QueryFile(Path(row.query))
        _demand_unchanged(row, file)
        return Asked(file.query())
    if row.sample is None or not isinstance(command.get("dataset"), str):
        raise InputError("its query is in no file")
    question = _sample(row, row.sample, command)
    _demand_unchanged(row, question)
    return Asked(question.query(), question.data.x[0])


def demand_file(path: str) -> None:
    """Raise InputError unless a regular file is there: reading others may never end."""
    if not Path(path).is_file():
        raise InputError(f"{path}: is not there any more")


def _demand_unchanged(row: Row, question: Question) -> None:
    networks = tuple(NamedNetwork(name, Path(path)) for name, path in row.networks)
    (job,) = arranged([Job(row.family, row.onnx, row.vnnlib, 0.0, networks, question)])
    if job.fault:
        raise InputError(job.fault)
    for what, now, then in (("network", job.network_hash, row.network_hash), ("query", job.query_hash, row.query_hash)):
        if now != then:
            raise InputError(f"its {what} has changed since")


def _sample(row: Row, i: int, command: Mapping[str, Any]) -> Sample:
    """The question about one sample, from a data set that holds it alone."""
    demand_file(command["dataset"])
    setting = setting_of(command)
    x, y, shape = read_samples(Path(command["dataset"]))
    if not 0 <= i < len(x):
        raise InputError(f"{command['dataset']}: holds no sample {i} any more")
    setting = replace(setting, radius=np.broadcast_to(setting.radius, x.shape)[i : i + 1])
    network = fitted(load(Path(row.networks[0][1])), shape)
    one, label = x[i : i + 1], None if y is None else y[i : i + 1]
    outputs = None
    if label is None and setting.property is not Property.RANGE:
        outputs = network.reference.run_flat(one[0].astype(network.reference.dtype))[None]
    return Sample(DataSet(one, label, setting, network, command["dataset"], outputs), 0)
