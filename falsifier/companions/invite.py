"""Making the company of a search that its first pass has left open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from falsifier.arguments import as_pairs
from falsifier.companions.company import Company
from falsifier.companions.room import room
from falsifier.companions.telling import Task

if TYPE_CHECKING:
    from falsifier.search.run import Run


@dataclass(frozen=True)
class Asked:
    """An instance as it was given (`falsify.Prepared`), and the seconds that it took to read."""

    networks: Any
    query: Any
    require: str
    portfolio: str
    budgets: Any
    seconds: float


def company(run: Run, workers: int | str, asked: Asked, rng_seed: int) -> Company:
    """The company of a run, with the first companion started where there is room for one.

    workers: processes that search, the main one included, or `auto`. What a companion draws follows from `rng_seed` and
    its number.
    """
    paths = _paths(asked)
    count, why = room(run, workers, asked.seconds) if paths is not None else (0, "the instance is not given as files")

    def task(number: int) -> Task:
        assert paths is not None
        networks, query, budgets = paths
        portfolio = "restarts" if asked.portfolio == "standard" else asked.portfolio
        return Task(networks, query, asked.require, portfolio, budgets, state_of(rng_seed, number), run.budget.deadline)

    made = Company(task, count, why)
    made.look(run)
    return made


def state_of(rng_seed: int, number: int) -> int:
    """The random state of a companion, from 1: unlike that of any other, and of searches with other seeds."""
    return int(np.random.SeedSequence([rng_seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _paths(asked: Asked) -> tuple[list[tuple[str | None, str]], str, str | None] | None:
    """Networks, query and budgets where all are files, which another process can read; else None."""
    networks = as_pairs(asked.networks)
    files = [asked.query, *(model for _, model in networks), *([] if asked.budgets is None else [asked.budgets])]
    if not all(isinstance(file, str | os.PathLike) and os.path.isfile(file) for file in files):
        return None
    budgets = None if asked.budgets is None else os.fspath(asked.budgets)
    return [(name, os.fspath(model)) for name, model in networks], os.fspath(asked.query), budgets
