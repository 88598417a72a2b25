"""Budgets: how far each input may move from the centre of its box, given beside the query (paper A, 6).

They only ever take away: every box they leave lies inside the query's own, so a witness in it is one of the query's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.numpy_file import numpy_file
from falsifier.records import replaced
from falsifier.spec.compile import Spec
from falsifier.spec.domain import Domain
from falsifier.spec.margin import round_up
from falsifier.spec.targets import Targets


def read_budgets(path: Path) -> NDArray[np.float64]:
    """The budgets of a numpy file (.npy), flat, in the order of the inputs. Raises InputError."""
    with numpy_file(path, "this is no numpy file (.npy): write it with numpy.save") as values:
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
            raise InputError(f"{path}: budgets are one array of numbers, written with numpy.save")
    return as_budget(values, str(path))


def as_budget(values: Any, origin: str) -> NDArray[np.float64]:
    """Numbers as budgets, flat. Raises InputError for what is no number, or below 0."""
    try:
        flat = np.asarray(values, np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{origin}: budgets are one array of numbers ({error})") from None
    wrong = np.flatnonzero(~(flat >= 0))
    if wrong.size:
        raise InputError(f"{origin}: budget {flat[wrong[0]]:g} at position {wrong[0]}: use 0 or more (inf: no limit)")
    return flat


def shrunk(spec: Spec, budgets: NDArray[np.float64], origin: str = "budgets") -> Spec:
    """A spec whose boxes reach no farther than `budgets` `[n]` from their centres, in units of the inputs.

    Raises InputError where sizes differ, or where a budget is given for an input that is searched by way of others.
    """
    if budgets.shape != (spec.n,):
        raise InputError(
            f"{origin}: {counted(budgets.size, 'budget')}, the query has {counted(spec.n, 'input')}: "
            "give one for each, in order"
        )
    if spec.targets is None or spec.domain is None:
        return spec
    return replaced(spec, targets=_shrunk(spec.targets, spec.domain, _of_free(budgets, spec.domain, origin)))


def _of_free(budgets: NDArray[np.float64], domain: Domain, origin: str) -> NDArray[np.float64]:
    """Budgets `[f]` of the free inputs, which also keep what is tied to them within its own."""
    radius = budgets[domain.free]
    for tie in domain.ties:
        scale = np.abs(np.asarray(tie.scale, np.float64))
        own = np.where(scale > 0, budgets[tie.tied] / np.where(scale > 0, scale, 1.0), np.inf)
        radius[tie.source] = np.minimum(radius[tie.source], own)
    for group in (domain.combination, domain.band):
        limited = [] if group is None else [int(at) for at in group.tied if np.isfinite(budgets[at])]
        if limited:
            raise InputError(f"{origin}: the query compares input {limited[0]} with others: its budget must be inf")
    if domain.band is not None:
        radius[domain.band.own] = np.inf  # a difference, not an input
    return radius


def _shrunk(targets: Targets, domain: Domain, radius: NDArray[np.float64]) -> Targets:
    lower, upper = targets.lower.astype(np.float64), targets.upper.astype(np.float64)
    centre = lower / 2 + upper / 2
    low, high = np.maximum(lower, centre - radius), np.minimum(upper, centre + radius)
    whole = domain.integer[None, :]
    low, high = np.where(whole, np.ceil(low), low), np.where(whole, np.floor(high), high)
    dtype = targets.lower.dtype
    inner, outer = (round_up(a.reshape(-1), dtype).reshape(a.shape) for a in (low, -high))
    outer = -outer
    middle = np.clip(_nearest(centre, whole, dtype), targets.lower, targets.upper)
    none = inner > outer  # less than the distance between two values: one is left
    return replaced(targets, lower=np.where(none, middle, inner), upper=np.where(none, middle, outer))


def _nearest(centre: NDArray[np.float64], whole: NDArray[np.bool_], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.where(whole, np.rint(centre), centre).astype(dtype)
