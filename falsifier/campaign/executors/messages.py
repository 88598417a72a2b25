"""What a worker and the process that hired it say to each other. Jobs are numbers: places in the unit at work.

A worker gets a `Setup`, says `Ready`, and from then on runs units as they come: `At`, `Decided`, `Improved`,
`Stands` and `Warned` while it is at one, and `Done` after it.
"""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.campaign.executors import Standing
from falsifier.campaign.record import Decision
from falsifier.campaign.stack import Settings

LOADING = "loading the network"  # the phase in which a death is the network's, whatever the jobs


@dataclass(frozen=True)
class Setup:
    """What a worker is told first. cores: those that it may run on, None for all; folder: where it works; threads: how
    many it may keep busy, None for all that there are.
    """

    settings: Settings
    cores: frozenset[int] | None
    folder: str
    threads: int | None = None


@dataclass(frozen=True)
class Ready:
    """The worker has imported what it needs."""


@dataclass(frozen=True)
class At:
    """What comes next, and with which jobs."""

    phase: str
    jobs: tuple[int, ...]


@dataclass(frozen=True)
class Decided:
    """An answer."""

    job: int
    decision: Decision


@dataclass(frozen=True)
class Improved:
    """A better witness."""

    job: int
    decision: Decision


@dataclass(frozen=True)
class Stands:
    """Where the worker stands."""

    standing: Standing


@dataclass(frozen=True)
class Warned:
    """A line for people."""

    text: str


@dataclass(frozen=True)
class Done:
    """The unit is run, every job decided."""


Message = Ready | At | Decided | Improved | Stands | Warned | Done
