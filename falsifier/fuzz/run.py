"""A fuzzing run from settings to a report: the loop, the hits, the session on disk, and why it stopped."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from falsifier import output_file
from falsifier.budget import Budget
from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.fuzz.build import build
from falsifier.fuzz.findings import Findings
from falsifier.fuzz.fuzzer import Fuzzer
from falsifier.fuzz.hit import Hit, read_record
from falsifier.fuzz.loop import Loop, Progress
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.store import HITS, REPORT, Store


class Stop(Enum):
    """Why a run ended; the value is the sentence that a user reads."""

    TIME = "the time is used up"
    EVALUATIONS = "the evaluations are used up"
    CAUSES = "as many causes were found as were asked for"
    SIGNAL = "a signal asked for it"


@dataclass
class Report:
    """What a run did. hits: by cause, of this run. folders: where they lie."""

    stop: Stop
    progress: Progress
    hits: dict[str, Hit]
    refused: int
    seconds: float
    folders: dict[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)  # of all runs of the session

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "stop": self.stop.name.lower(),
            "stop_text": self.stop.value,
            "evaluations": self.progress.evaluations,
            "evaluations_per_second": round(self.progress.evaluations / max(self.seconds, 1e-9), 1),
            "batches": self.progress.batches,
            "entries": self.progress.entries,
            "covered": self.progress.covered,
            "hit_lanes": self.progress.hits,
            "hits_by_mutator": self.progress.by_mutator,
            "unconfirmed": self.refused,
            "seconds": round(self.seconds, 3),
            "notes": self.notes,
            "causes": [
                {"cause": h.finding.cause, "summary": h.finding.summary, "stable": h.stable, "count": h.count,
                 "evaluations": h.evaluations, "folder": str(self.folders.get(h.finding.cause, "")) or None}
                for h in self.hits.values()
            ],
            "session": list(self.records),
        }  # fmt: skip


def fuzz(settings: Settings, told: Callable[[Progress, Findings], None] | None = None) -> Report:
    """Build and run. `told` is called about once a second. Raises InputError."""
    return run(build(settings), told)


def run(fuzzer: Fuzzer, told: Callable[[Progress, Findings], None] | None = None) -> Report:
    """Run a fuzzer that was put together. SIGTERM and SIGINT end it as the deadline does, what was found kept.

    Raises InputError for a session that is another one, and for fewer evaluations than there are starts.
    """
    settings = fuzzer.settings
    starts, most = len(fuzzer.space.starts), settings.max_evaluations
    if most is not None and most < starts:
        raise InputError(f"--max-evaluations {most}: the {counted(starts, 'start')} alone would be more")
    store = None
    if settings.out is not None:
        store = Store(Path(settings.out), fuzzer.identity(), resume=settings.resume)
        fuzzer.rng.seed += store.run  # another run of a session makes other draws
    started = time.monotonic()
    budget = Budget(started + settings.seconds, settings.max_evaluations)
    asked = threading.Event()
    loop: Loop | None = None
    root = None if store is None else store.folder / HITS

    def note(hit: Hit) -> None:
        folder = findings.folder(hit)
        if store is not None and folder is not None:
            if settings.as_vnnlib:
                from falsifier.fuzz.as_query import write_query

                write_query(hit, fuzzer, folder)
            store.note_hit(hit, read_record(folder))

    findings = Findings(
        fuzzer.objective,
        fuzzer.space,
        root,
        lambda: 0 if loop is None else loop.progress.evaluations,
        replays=settings.replays,
        tries=fuzzer.tries,
        minimise=settings.minimise,
        settings={"objective": settings.objective, "rng_seed": settings.rng_seed, "tolerance": settings.tolerance},
        told=note,
        hurry=lambda: asked.is_set() or budget.remaining() < 0,
    )
    if store is not None:
        findings.known.update(store.hits())
    stop = Stop.TIME
    shown = started

    def between(progress: Progress) -> bool:
        nonlocal shown, stop
        if store is not None:
            store.tick(progress)
        now = time.monotonic()
        if told is not None and now - shown >= 1.0:
            shown = now
            told(progress, findings)
        if settings.causes is not None and len(findings.hits) >= settings.causes:
            stop = Stop.CAUSES
            return False
        if asked.is_set():
            stop = Stop.SIGNAL
            return False
        return True

    with _signals(asked):
        loop = fuzzer.loop(
            findings.offer,
            on_keep=None if store is None else store.keep,
            restore=None if store is None or not settings.resume else store.restore,
        )
        budget.charge(loop.progress.evaluations)
        if between(loop.progress):
            loop.go(budget, between)
    if stop is Stop.TIME and budget.remaining() > 0:
        stop = Stop.EVALUATIONS
    report = Report(stop, loop.progress, findings.hits, findings.refused, time.monotonic() - started)
    report.notes = [*fuzzer.notes, *_met(fuzzer)]
    report.folders = {c: f for c, h in findings.hits.items() if (f := findings.folder(h)) is not None}
    if store is not None:
        store.tick(loop.progress, force=True)
        report.records = store.hits()
        store.close()
        output_file.write(store.folder / REPORT, json.dumps(report.to_json(), indent=1) + "\n")
    return report


def _met(fuzzer: Fuzzer) -> list[str]:
    """What only became true on the way."""
    if not getattr(fuzzer.coverage, "full", False):
        return []
    from falsifier.fuzz.coverage.kept import missing_of_extra

    return [
        f"no more than {fuzzer.coverage.size} vectors of coverage were kept: {missing_of_extra()}, of the extra "
        "[fuzz], would search more: pip install 'vnn-falsifier[fuzz]' (or give --exact-coverage)"
    ]


@contextmanager
def _signals(asked: threading.Event) -> Iterator[None]:
    """SIGTERM, SIGINT and SIGHUP set `asked`, in the main thread; elsewhere signals are left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {n: signal.signal(n, lambda *_: asked.set()) for n in numbers}
    try:
        yield
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
