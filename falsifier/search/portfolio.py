"""Portfolios: ordered, named lists of stages."""

from __future__ import annotations

from falsifier.errors import InputError
from falsifier.search.stage import Stage
from falsifier.search.stages.descent import Descent
from falsifier.search.stages.enumerate import Enumeration
from falsifier.search.stages.flips import Flips
from falsifier.search.stages.gradient import Gradient
from falsifier.search.stages.hopping import Hopping
from falsifier.search.stages.nearest import Nearest
from falsifier.search.stages.probe import Probe
from falsifier.search.stages.reach import Reach
from falsifier.search.stages.sampling import Sampling
from falsifier.search.stages.screen import Screen


def standard() -> list[Stage]:
    """Everything, the cheap first. Each stage says itself where it does not apply."""
    return [Probe(), Screen(), Enumeration(), Reach(), Sampling(), Descent(), Gradient(), Hopping(), Flips(), Nearest()]


PORTFOLIOS = {"standard": standard}


def stages_of(name: str) -> list[Stage]:
    """The stages of a named portfolio, fresh. Raises InputError for an unknown name."""
    if name not in PORTFOLIOS:
        raise InputError(f"unknown portfolio {name!r}: choose one of {', '.join(sorted(PORTFOLIOS))}")
    return PORTFOLIOS[name]()
