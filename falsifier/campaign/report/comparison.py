"""Two campaigns side by side: what one decided and the other did not, where they contradict, who was faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from falsifier.campaign.report.data import Recorded, Row
from falsifier.campaign.report.statistics import ALPHA, benjamini_hochberg, cohens_d, mann_whitney

_LEAST = 1e-4  # seconds: what clocks of instances are recorded in, so that a ratio has no zero in it


@dataclass(frozen=True)
class Pair:
    """One instance in this campaign and in the other."""

    this: Row
    other: Row

    @property
    def ratio(self) -> float:
        """How many times as long the other took."""
        return max(self.other.total, _LEAST) / max(self.this.total, _LEAST)


@dataclass(frozen=True)
class Speed:
    """A family's pairs that both campaigns decided.

    mean: geometric mean of the ratios, above 1 where this campaign is faster; middle: their median; p: of the two-sided
    Mann-Whitney test on the seconds, adjusted over the families; d: Cohen's, of the logarithms of the seconds, positive
    where this campaign is faster. None where pairs are too few.
    """

    family: str
    pairs: int
    mean: float
    middle: float
    p: float | None
    d: float | None

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p <= ALPHA


@dataclass(frozen=True)
class Comparison:
    """gained, lost: decided here alone, there alone; contradictions: sat here and unsat there, or the reverse."""

    other: Recorded
    pairs: tuple[Pair, ...]
    gained: tuple[Pair, ...]
    lost: tuple[Pair, ...]
    contradictions: tuple[Pair, ...]
    only_here: int
    only_there: int
    speeds: tuple[Speed, ...]
    together: Speed | None
    differing: tuple[tuple[str, str, str], ...]

    @property
    def both(self) -> list[Pair]:
        """Pairs that both decided, and alike."""
        return agreed(self.pairs)


def compare(this: Recorded, other: Recorded, differing: Sequence[tuple[str, str, str]] = ()) -> Comparison:
    """Match instances by family, network and query as their rows name them.

    differing: (name, here, there) of facts that are not equal. Raises ImportError without scipy.
    """
    there = {row.key: row for row in other.rows}
    pairs = tuple(Pair(row, there[row.key]) for row in this.rows if row.key in there)
    here = {row.key for row in this.rows}
    both = agreed(pairs)
    return Comparison(
        other=other,
        pairs=pairs,
        gained=tuple(pair for pair in pairs if pair.this.decided and not pair.other.decided),
        lost=tuple(pair for pair in pairs if pair.other.decided and not pair.this.decided),
        contradictions=tuple(
            pair
            for pair in pairs
            if pair.this.decided and pair.other.decided and pair.this.verdict != pair.other.verdict
        ),
        only_here=len(this.rows) - len(pairs),
        only_there=sum(key not in here for key in there),
        speeds=tuple(_speeds(both)),
        together=_speed("all", both) if both else None,
        differing=tuple(differing),
    )


def agreed(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that both decided alike."""
    return [pair for pair in pairs if pair.this.decided and pair.this.verdict == pair.other.verdict]


def _speeds(pairs: Sequence[Pair]) -> list[Speed]:
    """Family by family, p-values adjusted over those that have one."""
    members: dict[str, list[Pair]] = {}
    for pair in pairs:
        members.setdefault(pair.this.family, []).append(pair)
    raw = [_speed(name, mine) for name, mine in sorted(members.items())]
    adjusted = iter(benjamini_hochberg([speed.p for speed in raw if speed.p is not None]))
    return [Speed(s.family, s.pairs, s.mean, s.middle, None if s.p is None else next(adjusted), s.d) for s in raw]


def _speed(family: str, pairs: Sequence[Pair]) -> Speed:
    ratios = [pair.ratio for pair in pairs]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    if len(pairs) < 2:
        return Speed(family, len(pairs), mean, median(ratios), None, None)
    this, other = [max(p.this.total, _LEAST) for p in pairs], [max(p.other.total, _LEAST) for p in pairs]
    d = cohens_d([math.log(x) for x in other], [math.log(x) for x in this])
    return Speed(family, len(pairs), mean, median(ratios), mann_whitney(this, other), d)
