"""The record of a campaign: what was decided, written as it is decided.

Contract of any record: `decide` is called once for a job, from one thread; when it returns, the answer and its witness
outlive whatever becomes of the process. `improve` replaces the witness of a job that was decided sat by a better one.
A reader never sees half a witness or half a row.
"""

from __future__ import annotations

import csv
import io
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from falsifier.campaign.plan import Job
from falsifier.errors import InputError
from falsifier.verdict import Verdict


@dataclass(frozen=True)
class Decision:
    """The answer to a job. prepare and seconds: of its own clock, reading and searching; witness: the text below `sat`
    in a results file; class_: `exact` or `correct`; reason: for people.
    """

    verdict: Verdict
    reason: str
    prepare: float = 0.0
    seconds: float = 0.0
    witness: str | None = None
    class_: str | None = None


class Record(Protocol):
    """Where decisions go."""

    def decide(self, job: Job, decision: Decision) -> None:
        """Keep an answer. Raises InputError where it cannot be kept."""
        ...

    def improve(self, job: Job, decision: Decision) -> None:
        """Keep a better witness of a job that was decided sat."""
        ...


class ResultsFolder:
    """The competition's layout: `results.csv`, and `<category>/<onnx stem>_<vnnlib stem>.counterexample`.

    Rows `category,onnx,vnnlib,prepare_seconds,result,run_seconds`, each appended by one write after its witness file
    was put in place by one rename.
    """

    def __init__(self, folder: Path) -> None:
        """Raises InputError where the folder cannot be made, or holds results already."""
        self.folder, self.results = folder, folder / "results.csv"
        self.lock = threading.Lock()  # held while an answer is written: whoever ends the process takes it first
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._rows = os.open(self.results, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        except FileExistsError:
            what = "exists: choose another folder, or remove it" if folder.is_dir() else "its folder is a file"
            raise InputError(f"{self.results}: {what}") from None
        except OSError as error:
            raise InputError(f"{self.results}: cannot be written: {error.strerror}") from None

    def decide(self, job: Job, decision: Decision) -> None:
        prepare, seconds = (f"{value:.4f}" for value in (decision.prepare, decision.seconds))
        line = io.StringIO()
        row = [job.category, job.onnx, job.vnnlib, prepare, decision.verdict.value, seconds]
        csv.writer(line, lineterminator="\n").writerow(row)
        with self.lock:
            self._put_witness(job, decision)
            self._append(line.getvalue().encode())

    def improve(self, job: Job, decision: Decision) -> None:
        with self.lock:
            self._put_witness(job, decision)

    def _append(self, row: bytes) -> None:
        try:
            written = os.write(self._rows, row)
            if written < len(row):  # a full disk: no half row stays
                os.ftruncate(self._rows, os.fstat(self._rows).st_size - written)
                raise InputError(f"{self.results}: cannot be written: the disk is full")
        except OSError as error:
            raise InputError(f"{self.results}: cannot be written: {error.strerror}") from None

    def _put_witness(self, job: Job, decision: Decision) -> None:
        if decision.witness is None:
            return
        path = self.folder / job.category / f"{job.stem}.counterexample"
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(decision.witness)
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def tally(decisions: Mapping[Verdict, int]) -> str:
    """How many of each verdict, in words."""
    return ", ".join(f"{count} {verdict.value}" for verdict, count in decisions.items() if count)
