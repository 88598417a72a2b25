"""Lines of a campaign on stderr: its progress, and what is to be said."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from falsifier.campaign.record import Progress

_OFTEN, _SELDOM = 1.0, 10.0  # seconds between progress lines on a terminal and elsewhere


class Reporter:
    """Lines on stderr: progress, often on a terminal and seldom in a file, and what is wrong."""

    def __init__(self, started: float) -> None:
        """started: reading of `time.monotonic` from which the seconds shown are counted."""
        self._started = started
        self._terminal = sys.stderr.isatty()
        self._every = _OFTEN if self._terminal else _SELDOM
        self._last = started
        self._made = 0
        self._shown = False

    def tell(self, progress: Progress) -> None:
        """A progress line, if it is time for one."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        speed = (progress.evaluations - self._made) / (now - self._last)
        self._last, self._made = now, progress.evaluations
        line = progress_line(progress, now - self._started, speed)
        if self._terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self._shown = True
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        print(("\r\x1b[K" if self._shown else "") + f"falsifier: {text}", file=sys.stderr, flush=True)
        self._shown = False


def progress_line(progress: Progress, seconds: float, speed: float) -> str:
    """One line: seconds so far, instances open and falsified, lanes of a batch, evaluations a second, time left."""
    from falsifier.verdict import Verdict

    decided = sum(progress.verdicts.values())
    seen = "" if progress.coverage is None else f", coverage {progress.coverage:.1%}"
    minutes, left = divmod(int(progress.left), 60)
    return (
        f"{seconds:.0f} s: {progress.total - decided} of {progress.total} instances open "
        f"({progress.open} in this batch), "
        f"{progress.verdicts[Verdict.SAT]} falsified, {progress.lanes} lanes, {speed:.3g} evaluations/s{seen}, "
        f"at most {minutes}:{left:02d} left"
    )
