"""The record of a campaign: its single truth, written as things happen.

Contract of any record. One process writes it, through calls from one thread; any number may read it meanwhile.

*Jobs.* A record is made for the jobs of a plan, or goes on with those that it has: it says which of them wait to be run
(`waiting`) and counts the verdicts of the others (`verdicts`). What it knows of a job is found again by `Job.key`. An
answer holds for the contents of the files that it was given for: a job whose files are others now waits, and so does
one whose attempt was lost or ended in an error; what may be asked for beside that is the maker's affair.

*Attempts.* `begin` says that an attempt at these jobs starts. `decide` ends it with an answer, once; a job that no
attempt was begun at may be decided too. What was begun and never decided when the process ended is a lost attempt,
and the job waits for the next session. `begin` at a job whose attempt is under way gives that one up for lost. Of
several attempts the last one that ended counts. `improve` puts a better witness in the place of that of a job that was
decided sat in this session: its text, class, reason, evaluations and engine; the times stay.

*Durability.* When `decide` or `improve` returns, the answer and its witness outlive whatever becomes of the process: a
kill at any moment loses what was begun, and nothing else. A reader sees a decision whole or not at all, never half a
witness. Each raises InputError, in one line, where it cannot be kept; nothing of it is in the record then.
Exports that cannot be written are no such reason: what is kept goes on, and they are made up later.

*Progress.* `progress` may be called as often as there is news; a record keeps a sample a second at most.

*End.* `close` says that the session has ended, completes the exports, and lets go of the record; nothing may be called
after it. It raises InputError where exports cannot be completed; the record has all answers then. `abandon` lets go and
completes nothing, as a death of the process would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from falsifier.campaign.plan import Job
from falsifier.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """The answer to a job. prepare and seconds: of its own clock, reading and searching; witness: the text below `sat`
    in a results file; class_: `exact` or `correct`; reason: for people. evaluations: points of its own. margins: the
    best margin reached of each disjunct of the query that stayed open, negative ones, empty where unknown; disjuncts:
    their numbers in the query, in order. engine: that evaluated last; worker: who made the attempt.
    """

    verdict: Verdict
    reason: str
    prepare: float = 0.0
    seconds: float = 0.0
    witness: str | None = None
    class_: str | None = None
    evaluations: int = 0
    margins: tuple[float, ...] = ()
    engine: str = ""
    worker: str = ""
    disjuncts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Progress:
    """Where a campaign stands.

    open: instances in the search at work; lanes: of its last batch; evaluations: made so far, in all; left: seconds
    until the last instance is decided at the latest; coverage: of the search at work, where it measures one.
    """

    total: int
    verdicts: Counter[Verdict]
    open: int
    lanes: int
    evaluations: int
    left: float
    coverage: float | None


class Decisions(Protocol):
    """Where decisions go."""

    def decide(self, job: Job, decision: Decision) -> None:
        """Keep an answer. Raises InputError where it cannot be kept."""
        ...

    def improve(self, job: Job, decision: Decision) -> None:
        """Keep a better witness of a job that was decided sat. Raises InputError where it cannot be kept."""
        ...


class Record(Decisions, Protocol):
    """The contract is the module's text; `falsifier.testing.records` is a suite of it."""

    @property
    def waiting(self) -> Sequence[Job]:
        """The jobs to run, as they were when the record was made or opened, in the plan's order."""
        ...

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """How many of each verdict the jobs have that do not wait; as of then, too."""
        ...

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None:
        """An attempt at these jobs starts."""
        ...

    def progress(self, progress: Progress) -> None:
        """Keep where the campaign stands, if it is time for a sample."""
        ...

    def close(self) -> None:
        """The session has ended."""
        ...

    def abandon(self) -> None:
        """Let go of the record, completing nothing."""
        ...


def tally(decisions: Mapping[Verdict, int]) -> str:
    """How many of each verdict, in words."""
    return ", ".join(f"{count} {verdict.value}" for verdict, count in decisions.items() if count)
