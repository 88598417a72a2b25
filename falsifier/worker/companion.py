"""A companion: `python -m falsifier.worker.companion DESCRIPTOR PARENT` (`falsifier/companions` has the other side).

It reads its task from standard input, tells what it finds through the descriptor, and ends with the process that
started it, at once, even inside a library: the kernel sees to that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier import machine
from falsifier.companions.telling import Kind, Task, Told
from falsifier.worker.place import die_with

_NICE = 10
_EVERY = 0.5  # seconds between two counts of evaluations
_KILLED_FIRST = 1000  # of 1000
_LONGEST = 1e8  # seconds that a timer takes
_LATE = 1.0  # seconds after the deadline at which the kernel ends it, whatever it is doing


def main(descriptor: int, parent: int) -> None:
    """Search, and exit: with 0 where nothing is left to do."""
    machine.die_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the one that started it may have blocked what its guard waits for
    machine.prefer_for_killing(_KILLED_FIRST)
    with suppress(OSError):
        os.nice(_NICE)
    line = sys.stdin.buffer.readline()
    if not line:  # nobody is there any more
        os._exit(1)
    die_with(sys.stdin.fileno())
    task = Task.unpacked(line)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    left = min(task.deadline - time.monotonic(), _LONGEST)
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.0) + _LATE)
    _search(task, _Teller(descriptor))


def _search(task: Task, teller: _Teller) -> None:
    from falsifier.arrays import Rng
    from falsifier.falsify import Prepared
    from falsifier.search.run import Run
    from falsifier.search.search import search_run
    from falsifier.witness.outcome import Witness, WitnessClass

    prepared = Prepared(
        task.networks,
        task.query,
        device="cpu",
        require=task.require,
        portfolio=task.portfolio,
        budgets=task.budgets,
    )
    problems, door = prepared.problems, prepared.door
    assert door is not None, "there is a door where there are problems"
    patient = bool(np.any(problems.targets.exact))

    def confirm(point: NDArray[Any]) -> bool:
        """A point that holds under the published rule alone is shown, once, and the search goes on."""
        verdict = door.confirm(point)
        if not isinstance(verdict, Witness):
            return False
        if verdict.class_ is WitnessClass.EXACT or not patient:
            return True
        teller.hold(point)
        return False

    prepared.budget.deadline = task.deadline
    run = Run.start(problems, prepared.budget, Rng(task.rng_seed), confirm)
    run.company = teller
    search_run(run, prepared.stages)
    if run.finds:
        found = run.finds[0]
        teller.tell(Kind.FOUND, found.target, run.budget.evaluations, found.stage, found.point)


class _Teller:
    """Says where the search stands, and what it found."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._last = descriptor, 0.0
        self._stage, self._evaluations, self._held = "", 0, False

    def look(self, run: Any) -> None:
        """Between batches."""
        self._stage, self._evaluations = run.stage, run.budget.evaluations
        now = time.monotonic()
        if now >= self._last + _EVERY:
            self._last = now
            self.tell(Kind.STANDS, 0, self._evaluations, self._stage, np.zeros(0))

    def hold(self, point: NDArray[Any]) -> None:
        """Show a first point that would do."""
        if not self._held:
            self._held = True
            self.tell(Kind.HELD, 0, self._evaluations, self._stage, point)

    def tell(self, kind: Kind, target: int, evaluations: int, stage: str, point: NDArray[Any]) -> None:
        """One record. Raises OSError where nobody listens any more."""
        left = memoryview(Told(kind, target, evaluations, stage, point).packed())
        while left:
            left = left[os.write(self._descriptor, left) :]


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except BaseException:  # noqa: BLE001 - whatever it was: nobody reads why
        os._exit(1)
    os._exit(0)
