"""Units: the jobs that one worker takes at once. Those of a unit have their networks in common, so that they stack.

The cut depends on the plan and the number of workers alone, never on what happens: with a cap on evaluations a campaign
of so many workers gives the same answers again, whichever worker was quicker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from falsifier.campaign.plan import Job, by_network

FEWEST, MOST = 16, 4096  # jobs of a unit, where a network has that many
_TURNS = 2  # units that each worker could get of what is left
_PIECES = 8


@dataclass(frozen=True)
class Unit:
    """Jobs with the same networks. careful: to be run in a worker that has run nothing before, since one was lost on
    them; lost: how often they went down with their machine.
    """

    jobs: tuple[Job, ...]
    careful: bool = False
    lost: int = 0

    @property
    def network(self) -> str:
        """What the networks of its jobs hold."""
        return self.jobs[0].network

    def pieces(self) -> list[Unit]:
        """The same jobs in several units, a lone one by itself and to be run with care."""
        if len(self.jobs) == 1:
            return [replace(self, careful=True)]
        size = -(-len(self.jobs) // _PIECES)
        parts = [self.jobs[at : at + size] for at in range(0, len(self.jobs), size)]
        return [Unit(part, careful=len(part) == 1) for part in parts]

    def shipped(self) -> Unit:
        """The same, as it is sent to another process: with the samples that it asks about, and no others."""
        from falsifier.campaign.dataset import Sample

        asked = [job.question for job in self.jobs]
        samples = [question for question in asked if isinstance(question, Sample)]
        if len(samples) < len(asked):
            return self
        data = samples[0].data.only([sample.index for sample in samples])
        jobs = [replace(job, question=Sample(data, place)) for place, job in enumerate(self.jobs)]
        return replace(self, jobs=tuple(jobs))


def units_of(jobs: Sequence[Job], workers: int = 1) -> list[Unit]:
    """The jobs without a fault in units, in the order in which they are best begun.

    One worker gets a network at a time, in the plan's order. For several the networks with most to do come first, and
    a unit takes at most a share of what is left (guided self-scheduling, Polychronopoulos and Kuck 1987): stacks are
    large at first, and small enough at the end for all workers to end together.
    """
    groups = [[jobs[number] for number in numbers] for numbers in by_network(jobs)]
    if workers == 1:
        return [Unit(tuple(group)) for group in groups]
    groups.sort(key=_weight, reverse=True)
    left = sum(map(_weight, groups))
    units = []
    for group in groups:
        for unit in _cut(group, left, workers):
            units.append(unit)
            left -= _weight(unit.jobs)
    return units


def _cut(group: Sequence[Job], left: float, workers: int) -> Iterator[Unit]:
    """The jobs of one network, while `left` seconds of limits are to be dealt, these included."""
    if len(group[0].networks) != 1:  # they run one after another anyhow
        yield from (Unit((job,)) for job in group)
        return
    at = 0
    while at < len(group):
        share = left / (_TURNS * workers)
        end, weight = at, 0.0
        while end < len(group) and end - at < MOST and (end - at < FEWEST or weight + group[end].limit <= share):
            weight += group[end].limit
            end += 1
        if len(group) - end < FEWEST // 2:  # too few to be worth a stack of their own
            end = len(group)
        yield Unit(tuple(group[at:end]))
        left -= _weight(group[at:end])
        at = end


def _weight(jobs: Sequence[Job]) -> float:
    """Seconds that jobs take at the most."""
    return sum(job.limit for job in jobs)
