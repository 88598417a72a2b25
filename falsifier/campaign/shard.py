"""Shards: a plan dealt to so many runs, each with a record of its own, which `merge` puts together again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from falsifier.campaign.plan import Job, by_network


def shard(jobs: Sequence[Job], i: int, n: int) -> list[Job]:
    """The i-th of n parts (1 <= i <= n) of a plan, in its order. The same plan gives the same parts everywhere.

    The jobs of one network stay together, since they share batches; only where their limits add up to more than a
    part's share are they cut, into runs of about equal limits. The heaviest goes to the part with the least so far.
    """
    part = [0] * len(jobs)
    fair = sum(job.limit for job in jobs) / n
    pieces = [piece for group in by_network(jobs) for piece in _cut(group, jobs, fair)]
    weights = [math.fsum(jobs[number].limit for number in piece) for piece in pieces]
    load = [0.0] * n
    for at in sorted(range(len(pieces)), key=lambda at: (-weights[at], pieces[at][0])):
        least = min(range(n), key=lambda k: (load[k], k))
        load[least] += weights[at]
        for number in pieces[at]:
            part[number] = least
    return [job for number, job in enumerate(jobs) if part[number] == i - 1]


def _cut(group: Sequence[int], jobs: Sequence[Job], fair: float) -> Iterator[list[int]]:
    """A group in as few runs as its limits need, about equal ones."""
    whole = math.fsum(jobs[number].limit for number in group)
    runs = min(len(group), max(1, math.ceil(whole / fair - 1e-9))) if fair > 0 else 1
    piece: list[int] = []
    passed, made = 0.0, 0
    for number in group:
        piece.append(number)
        passed += jobs[number].limit
        if passed >= whole * (made + 1) / runs - 1e-9 * whole:
            yield piece
            piece, made = [], made + 1
    if piece:
        yield piece
