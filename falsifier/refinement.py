"""What is wanted beyond a first witness, and the search for it: the same problems, budget and door, other stages.

The first witness is the answer whatever happens here; each better or further one is told as soon as the door has
confirmed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import demand_count
from falsifier.arrays import Rng
from falsifier.budget import Budget
from falsifier.errors import InputError
from falsifier.problems import Problems
from falsifier.records import replaced
from falsifier.search.groups import Groups
from falsifier.search.refine.ask import Confirmed
from falsifier.search.run import Run, host_margin
from falsifier.search.search import search_run
from falsifier.search.stage import Stage
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Appraised, Rejection, Witness, WitnessClass

_TARGETS = 1000  # that the search is told of what the first witness is worth to them

NORMS = ("linf", "l2")
DISTINCT = ("disjunct", "distance")


@dataclass(frozen=True)
class Refinement:
    """One wish of three. With none of them nothing is searched after a first witness.

    witnesses: up to so many, no two of one disjunct, or (`distinct="distance"`) no two nearer to each other than
    `apart` widths of the box in some free input. deepen: the greatest margin. nearest: the least distance, `norm` linf
    or l2 in the inputs' own units, from `"centre"` of the box or from a point `[n]` over all inputs.
    """

    witnesses: int = 1
    distinct: str = "disjunct"
    apart: float = 0.1
    deepen: bool = False
    nearest: Any = None
    norm: str = "linf"

    def __post_init__(self) -> None:
        """Raises InputError for wishes that cannot be."""
        demand_count("witnesses", self.witnesses)
        if (self.witnesses > 1) + self.deepen + (self.nearest is not None) > 1:
            raise InputError("choose one of more witnesses, the deepest and the nearest")
        if self.distinct not in DISTINCT:
            raise InputError(f"distinct {self.distinct!r}: choose {' or '.join(DISTINCT)}")
        if self.norm not in NORMS:
            raise InputError(f"norm {self.norm!r}: choose {' or '.join(NORMS)}")
        if isinstance(self.apart, bool) or not isinstance(self.apart, Real) or not 0 < self.apart < math.inf:
            raise InputError(f"apart {self.apart!r}: give a positive distance in widths of the box")
        if isinstance(self.nearest, str) and self.nearest != "centre":
            raise InputError(f"nearest {self.nearest!r}: give 'centre' or a point")

    def demand(self, n: int) -> None:
        """Raise InputError where the point to be near to does not fit n inputs."""
        if self.nearest is None or isinstance(self.nearest, str):
            return
        point = np.asarray(self.nearest, np.float64)
        if point.size != n or not np.isfinite(point).all():
            raise InputError(
                f"the point to be near to has {point.size} numbers, the inputs {n}: give one finite number for each "
                "input, in the order of the query's declarations"
            )

    def __bool__(self) -> bool:
        """Whether anything is wanted."""
        return self.witnesses > 1 or self.deepen or self.nearest is not None


@dataclass
class Refined:
    """All that was found: the first witness, further ones in the order of their confirmation or, of a wish for the
    best, the best; which of them is the answer; the stages' records.
    """

    witnesses: list[Appraised]
    best: int = 0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)


Tell = Callable[[Refined], None]
Portfolio = Callable[[], Iterable[Stage]]


class Refining:
    """The search for what is wanted until it is there or the budget ends."""

    def __init__(
        self,
        wish: Refinement,
        problems: Problems,
        door: Door,
        budget: Budget,
        rng: Rng,
        first: Witness,
        tell: Tell,
        portfolio: Portfolio,
    ) -> None:
        """tell: hears of every change, first of all of the first witness as it is. portfolio: makes the stages that
        search for a witness of another disjunct.

        Raises InputError where the point to be near to does not fit the inputs.
        """
        self._wish, self._door, self._budget, self._rng, self._tell = wish, door, budget, rng, tell
        self._portfolio = portfolio
        point = flat(first)
        self._source, self._aim = _home(problems, point)
        self._point = point
        self._reference = self._reference_point() if wish.nearest is not None else None
        self._kept = Refined([self._appraised(first, self._aim)])
        self._seen = {point.tobytes()}
        self._held: dict[int, Appraised] = {}  # by target: `correct` where `exact` is possible

    def run(self) -> Refined:
        """What was found."""
        self._tell(self._kept)
        if self._source.single.f == 0 or self._aim is None:
            return self._kept
        if self._wish.witnesses > 1 and self._wish.distinct == "disjunct":
            self._by_disjunct()
        else:
            self._by_stages()
        return self._kept

    # --- more witnesses ---

    def _by_disjunct(self) -> None:
        """Every disjunct is a question of its own, closed by its witness."""
        t = self._source.single.t
        if t == 1:
            return
        groups = Groups(np.ones(t, np.int64), self._confirm_disjunct, self._watch_disjuncts)
        self._groups = groups
        self._search(Run.start(self._source, self._budget, self._rng, groups), self._portfolio())
        for aim in sorted(self._held):
            if groups.open[aim] and self._wanting():
                self._add(self._held[aim])

    def _wanting(self) -> bool:
        return len(self._kept.witnesses) < self._wish.witnesses

    def _watch_disjuncts(self) -> Iterable[int]:
        assert self._aim is not None
        if not self._wanting():
            return [int(group) for group in np.flatnonzero(self._groups.open)]
        return [self._aim] if self._groups.open[self._aim] else []

    def _confirm_disjunct(self, aim: int, point: NDArray[Any]) -> bool:
        """Whether a point gives a disjunct its witness: one that no other has, and `exact` where that is possible."""
        witness = self._door.confirm(point)
        if isinstance(witness, Rejection) or not self._wanting() or self._has(flat(witness).tobytes(), aim):
            return False
        found = self._appraised(witness, aim)
        if witness.class_ is not WitnessClass.EXACT and bool(self._source.targets.exact[aim]):
            self._held.setdefault(aim, found)
            return False
        self._add(found)
        return True

    def _has(self, point: bytes, aim: int) -> bool:
        """Whether a point is the witness of another disjunct already, or will be unless that finds an `exact` one."""
        held = (flat(one.witness).tobytes() for at, one in self._held.items() if at != aim and self._groups.open[at])
        return point in self._seen or point in held

    def _add(self, found: Appraised) -> None:
        point = flat(found.witness)
        gaps = [self._apart(point - flat(other.witness).astype(np.float64)) for other in self._kept.witnesses]
        self._seen.add(point.tobytes())
        self._kept.witnesses.append(replaced(found, distance=min(gaps)))
        self._tell(self._kept)

    def _apart(self, difference: NDArray[np.float64]) -> float:
        """The norm of a difference `[n]` in widths of the box, over the inputs that have one."""
        lower, upper = (side.astype(np.float64) for side in self._source.hull())
        wide = upper > lower
        return float(np.abs(difference[wide] / (upper - lower)[wide]).max(initial=0.0))

    # --- stages that ask by themselves ---

    def _by_stages(self) -> None:
        run = Run.start(self._source, self._budget, self._rng, lambda point: False)
        self._search(run, self._stages())

    def _stages(self) -> list[Stage]:
        wish = self._wish
        assert self._aim is not None
        if wish.witnesses > 1:
            from falsifier.search.refine.apart import Apart

            return [Apart(self._ask_more, self._point, self._aim, wish.witnesses, wish.apart)]
        if wish.deepen:
            from falsifier.search.refine.deepen import Deepen, Deepest, Vary

            deepest = Deepest(self._ask_deeper, self._point, self._aim, self._kept.witnesses[0].margin)
            return [Deepen(deepest), Vary(deepest)]
        from falsifier.search.refine.approach import Approach, Coordinates
        from falsifier.search.refine.geometry import Metric
        from falsifier.search.refine.nearer import Nearer

        assert self._reference is not None
        first = self._kept.witnesses[0].distance
        assert first is not None
        nearer = Nearer(self._ask_nearer, Metric(self._reference, wish.norm), self._point, self._aim, first)
        return [Approach(nearer), Coordinates(nearer)]

    def _ask_nearer(self, point: NDArray[Any], aim: int) -> Confirmed | None:
        found = self._asked(point, aim)
        if found is None or not self._no_worse(found):
            return None
        assert found.distance is not None
        assert self._best.distance is not None
        if found.distance < self._best.distance:
            self._improve(found)
        return Confirmed(flat(found.witness), found.margin)

    def _ask_deeper(self, point: NDArray[Any], aim: int) -> Confirmed | None:
        found = self._asked(point, aim)
        if found is None:
            return None
        if found.margin > self._best.margin and self._no_worse(found):
            self._improve(found)
        return Confirmed(flat(found.witness), found.margin)

    @property
    def _best(self) -> Appraised:
        return self._kept.witnesses[self._kept.best]

    def _no_worse(self, found: Appraised) -> bool:
        """Whether a witness is of a class that may take the place of the best: `correct` never that of `exact`."""
        exact = WitnessClass.EXACT
        return found.witness.class_ is exact or self._best.witness.class_ is not exact

    def _improve(self, found: Appraised) -> None:
        """The first witness and the best stay; those between have served."""
        self._kept.witnesses[1:] = [found]
        self._kept.best = 1
        self._tell(self._kept)

    def _ask_more(self, point: NDArray[Any], aim: int) -> Confirmed | None:
        found = self._asked(point, aim)
        if found is None:
            return None
        self._add(found)
        return Confirmed(flat(found.witness), found.margin)

    def _asked(self, point: NDArray[Any], aim: int) -> Appraised | None:
        self._budget.charge(1)
        witness = self._door.confirm(point)
        return None if isinstance(witness, Rejection) else self._appraised(witness, aim)

    # --- what all have in common ---

    def _search(self, run: Run, stages: Iterable[Stage]) -> None:
        """A search that begins with what the first witness is worth to every target."""
        single = self._source.single
        point = single.domain.restrict(self._point[None].astype(single.dtype))
        run.stage = "first"
        margin = host_margin(single.screen(point))[0]
        aims = np.argsort(-margin, kind="stable")[: min(_TARGETS, int(np.isfinite(margin).sum()))]
        run.note(single, np.repeat(point, aims.size, axis=0), aims, margin[aims])
        result = search_run(run, stages)
        for name, record in result.stages.items():
            self._kept.stages[name] = asdict(record)

    def _appraised(self, witness: Witness, aim: int | None) -> Appraised:
        disjunct = None if aim is None else int(self._source.targets.disjunct[aim])
        distance = None
        if self._reference is not None:
            from falsifier.search.refine.geometry import Metric

            distance = Metric(self._reference, self._wish.norm).of_full(flat(witness))
        return Appraised(witness, self._door.margin(witness), disjunct, distance)

    def _reference_point(self) -> NDArray[np.float64]:
        """The point `[n]` to be near to."""
        near = self._wish.nearest
        if isinstance(near, str):
            lower, upper = self._source.hull()
            return np.asarray(lower.astype(np.float64) / 2 + upper.astype(np.float64) / 2)
        self._wish.demand(self._point.size)
        return np.asarray(near, np.float64).reshape(-1)


def flat(witness: Witness) -> NDArray[Any]:
    """The inputs of a witness `[n]`, in the widest of their types."""
    return np.concatenate([np.asarray(values).ravel() for values in witness.inputs])


def _home(problems: Problems, point: NDArray[Any]) -> tuple[Problems, int | None]:
    """The problems in whose boxes a full point `[n]` lies, and the target that it satisfies best; None for neither."""
    for source in (problems, problems.nearest):
        if source is None:
            continue
        single = source.single
        margin = single.screen(single.domain.restrict(point[None].astype(single.dtype)))[0]
        if np.isfinite(margin).any():
            return source, int(np.argmax(margin))
    return problems, None
