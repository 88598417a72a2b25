"""What a page says in numbers: totals, families, open instances with the nearest first, how far the campaign is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from falsifier.campaign.report.data import BEGUN, OPEN, VERDICTS, Recorded, Row, Sample
from falsifier.verdict import Verdict

SAT = Verdict.SAT.value


@dataclass(frozen=True)
class Totals:
    """verdicts: of every instance; classes: of witnesses; clock: seconds of all instances' own clocks; wall: seconds
    from the first attempt to the last sign of life, pauses between sessions included.
    """

    instances: int
    verdicts: Counter[str]
    classes: Counter[str]
    clock: float
    wall: float | None
    evaluations: int
    attempts: int

    @property
    def waiting(self) -> int:
        """How many instances have no answer."""
        return self.verdicts[BEGUN] + self.verdicts[OPEN]


@dataclass(frozen=True)
class Family:
    """The instances of a category. Seconds and evaluations are those of witnesses (median, most) and of all (sum)."""

    name: str
    count: int
    verdicts: Counter[str]
    median: float | None
    most: float | None
    clock: float
    median_evaluations: float | None
    evaluations: int


@dataclass(frozen=True)
class OpenInstance:
    """One without a witness. nearest: its best margin; disjuncts: (number, margin) of the nearest few, of `count`."""

    row: Row
    nearest: float
    disjuncts: tuple[tuple[int, float], ...]
    count: int


def totals(recorded: Recorded) -> Totals:
    """The campaign as a whole."""
    rows = recorded.rows
    wall = None if recorded.began is None or recorded.last is None else max(0.0, recorded.last - recorded.began)
    return Totals(
        instances=len(rows),
        verdicts=counted(rows),
        classes=Counter(row.class_ for row in rows if row.verdict == SAT and row.class_),
        clock=sum(row.total for row in rows),
        wall=wall,
        evaluations=sum(row.evaluations for row in rows),
        attempts=sum(row.attempts for row in rows),
    )


def counted(rows: Iterable[Row]) -> Counter[str]:
    """How many of each verdict, in the order of VERDICTS."""
    found = Counter(row.verdict for row in rows)
    return Counter({verdict: found[verdict] for verdict in VERDICTS})


def families(rows: Sequence[Row]) -> list[Family]:
    """The families by name."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(row.family, []).append(row)
    return [_family(name, mine) for name, mine in sorted(members.items())]


def _family(name: str, rows: Sequence[Row]) -> Family:
    hits = [row for row in rows if row.verdict == SAT]
    counts = [row.evaluations for row in hits if row.evaluations]
    return Family(
        name=name,
        count=len(rows),
        verdicts=counted(rows),
        median=median(row.total for row in hits) if hits else None,
        most=max((row.total for row in hits), default=None),
        clock=sum(row.total for row in rows),
        median_evaluations=median(counts) if counts else None,
        evaluations=sum(row.evaluations for row in rows),
    )


def nearest_open(rows: Iterable[Row], shown: int = 3) -> list[OpenInstance]:
    """Instances without a decision of which margins are known, nearest first. shown: disjuncts of each."""
    found = []
    for row in rows:
        if row.decided or not row.margins:
            continue
        ranked = sorted(zip(row.disjuncts, row.margins, strict=True), key=lambda pair: -pair[1])
        found.append(OpenInstance(row, ranked[0][1], tuple(ranked[:shown]), len(ranked)))
    return sorted(found, key=lambda instance: -instance.nearest)


def solved_seconds(rows: Iterable[Row]) -> list[tuple[float, str]]:
    """Seconds and name of every falsified instance, quickest first: a cactus plot."""
    return sorted((row.total, f"{row.onnx} {row.vnnlib}") for row in rows if row.verdict == SAT)


def continued(samples: Sequence[Sample]) -> list[Sample]:
    """Progress with the sessions one after the other: times count the seconds at work, evaluations go on. So do
    witnesses where a session counts its own: those of a merged record did.
    """
    out: list[Sample] = []
    start, made, found, session = 0.0, 0, 0, None
    for sample in samples:
        if session is not None and sample.session != session:
            start, made = out[-1].time, out[-1].evaluations
            found = max(0, out[-1].falsified - sample.falsified)
        session = sample.session
        time, counts = start + sample.time, (found + sample.falsified, made + sample.evaluations)
        out.append(Sample(time, session, *counts, sample.coverage))
    return out
