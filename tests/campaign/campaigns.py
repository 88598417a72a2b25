"""Small campaigns: networks and queries whose answers are known, an instances.csv of them, a record in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import models

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress
from falsifier.verdict import Verdict

WEIGHT = [[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]]  # Y_0 = X_0 + X_1, Y_1 = 2 X_2 - X_1


def network(folder: Path, name: str = "sums.onnx") -> Path:
    return models.save(models.affine(WEIGHT), folder / name)


def query(folder: Path, name: str, bound: float, lower: Sequence[float], upper: Sequence[float]) -> Path:
    """Y_0 >= bound in a box; at most it reaches upper[0] + upper[1]."""
    text = models.declare(3, 2) + models.box(list(lower), list(upper)) + f"(assert (>= Y_0 {bound}))\n"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def family(folder: Path, count: int, timeout: str = "20") -> Path:
    """An instances.csv of `count` queries about one network: every third has no answer."""
    network(folder, "onnx/sums.onnx")
    rows = []
    for i in range(count):
        low, high = [0.125 * i, 0.0, float(i % 2)], [0.125 * i + 1, 1.0, float(i % 2)]  # the last input is pinned
        bound = high[0] + high[1] + (0.25 if i % 3 == 2 else -0.125)
        query(folder, f"vnnlib/q{i}.vnnlib", bound, low, high)
        rows.append(f"onnx/sums.onnx,./vnnlib/q{i}.vnnlib,{timeout}\r\n")
    path = folder / "instances.csv"
    path.write_text("".join(rows))
    return path


def answer(i: int) -> str:
    return "unknown" if i % 3 == 2 else "sat"


@dataclass
class Kept:
    """A record that keeps everything in memory, for one session."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    improved: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    workers: list[str] = field(default_factory=list)  # by which the jobs begun are run
    samples: list[Progress] = field(default_factory=list)
    waiting: Sequence[Job] = ()
    verdicts_before: Counter[Verdict] = field(default_factory=Counter)

    @property
    def verdicts(self) -> Counter[Verdict]:
        return self.verdicts_before

    def begin(self, jobs: Sequence[Job], worker: str = "") -> None:
        self.begun += [job.vnnlib for job in jobs]
        self.workers += [worker] * len(jobs)

    def decide(self, job: Job, decision: Decision) -> None:
        assert job.vnnlib not in self.decisions, "decided twice"
        self.decisions[job.vnnlib] = decision

    def improve(self, job: Job, decision: Decision) -> None:
        assert self.decisions[job.vnnlib].verdict is Verdict.SAT
        self.improved.append(job.vnnlib)
        self.decisions[job.vnnlib] = decision

    def progress(self, progress: Progress) -> None:
        self.samples.append(progress)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass

    def answers(self) -> dict[str, str]:
        return {name: decision.verdict.value for name, decision in self.decisions.items()}
