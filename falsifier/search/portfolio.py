"""Portfolios: ordered, named lists of stages.

A portfolio is a generator: a stage is imported and made when the search first comes to it, so that an instance which
falls to the first points pays for no other stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from falsifier.errors import InputError
from falsifier.search.stage import Stage
from falsifier.search.stages.probe import Probe


def standard() -> Iterator[Stage]:
    """Everything, the cheap first. Each stage says itself where it does not apply."""
    yield Probe()

    from falsifier.search.stages.enumerate import Enumeration
    from falsifier.search.stages.reach import Reach
    from falsifier.search.stages.screen import Screen

    yield Screen()
    yield Enumeration()
    yield Reach()

    from falsifier.search.stages.descent import Descent
    from falsifier.search.stages.gradient import Gradient
    from falsifier.search.stages.sampling import Sampling

    yield Sampling()
    yield Descent()
    yield Gradient()

    from falsifier.search.stages.flips import Flips
    from falsifier.search.stages.hopping import DilatedHopping, Hopping
    from falsifier.search.stages.last_bits import LastBits
    from falsifier.search.stages.nearest import Nearest

    yield DilatedHopping()
    yield Hopping()
    yield Flips()
    yield Nearest()
    yield LastBits()


PORTFOLIOS: dict[str, Callable[[], Iterator[Stage]]] = {"standard": standard}


def stages_of(name: str) -> Iterator[Stage]:
    """The stages of a named portfolio, fresh. Raises InputError for an unknown name."""
    if name not in PORTFOLIOS:
        raise InputError(f"unknown portfolio {name!r}: choose one of {', '.join(sorted(PORTFOLIOS))}")
    return PORTFOLIOS[name]()
