"""Figures of a side-by-side run: per family and overall, each contender by itself and ours against the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALL = "all families"


@dataclass(frozen=True)
class Contender:
    """A tool as it takes part: its scripts, and what their environment has besides."""

    name: str
    folder: Path
    environment: dict[str, str]


@dataclass(frozen=True)
class Trial:
    """One contender on one instance. seconds: wall time of its run; load: load average of the machine before it."""

    contender: str
    family: str
    network: str
    query: str
    answer: str
    seconds: float
    solved: bool
    wrong: bool
    why: str
    processes_left: int
    load: float

    @property
    def instance(self) -> tuple[str, str, str]:
        return self.family, self.network, self.query


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share of the values lies, itself one of them; None of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def median(values: Sequence[float]) -> float | None:
    """The median; None of none."""
    return statistics.median(values) if values else None


def summary(trials: Sequence[Trial], ours: Sequence[str]) -> dict[str, Any]:
    """`families`: per family and over all, the figures of every contender, and the ratios of ours to each other one."""
    names = list(dict.fromkeys(run.contender for run in trials))
    others = [name for name in names if name not in ours]
    pairs = [(mine, other) for mine in names if mine in ours for other in others]
    if {"cold", "warm"} <= set(names):
        pairs.append(("warm", "cold"))
    families: dict[str, Any] = {}
    for family in [*dict.fromkeys(run.family for run in trials), ALL]:
        own = [run for run in trials if family in (run.family, ALL)]
        families[family] = {
            "contenders": {name: _figures([run for run in own if run.contender == name]) for name in names},
            "ratios": {f"{mine} / {other}": _ratios(own, mine, other) for mine, other in pairs},
        }
    return {"families": families}


def _figures(runs: Sequence[Trial]) -> dict[str, Any]:
    seconds = [run.seconds for run in runs if run.solved]
    return {
        "solved": len(seconds),
        "tried": len(runs),
        "wrong": sum(run.wrong for run in runs),
        "median_s": _rounded(median(seconds)),
        "p90_s": _rounded(percentile(seconds, 0.9)),
    }


def _ratios(runs: Sequence[Trial], mine: str, other: str) -> dict[str, Any]:
    """Ratios of seconds, below 1 where the first is faster, over the instances that both solved."""
    by = {(run.contender, run.instance): run.seconds for run in runs if run.solved}
    both = [
        (seconds, by[other, instance])
        for (name, instance), seconds in by.items()
        if name == mine and (other, instance) in by
    ]
    first, second = [a for a, _ in both], [b for _, b in both]
    return {
        "instances": len(both),
        "median_of_ratios": _rounded(median([a / b for a, b in both if b > 0])),
        "ratio_of_medians": _quotient(median(first), median(second)),
        "ratio_of_p90s": _quotient(percentile(first, 0.9), percentile(second, 0.9)),
    }


def _quotient(a: float | None, b: float | None) -> float | None:
    return _rounded(a / b) if a is not None and b else None


def _rounded(x: float | None) -> float | None:
    return None if x is None else round(x, 4)


def tables(figures: dict[str, Any]) -> str:
    """The summary as text."""
    lines = ["", f"{'family':30} {'contender':14} {'solved':>9} {'median s':>9} {'p90 s':>8}"]
    for family, entry in figures["families"].items():
        for name, own in entry["contenders"].items():
            solved = f"{own['solved']}/{own['tried']}"
            wrong = f"  {own['wrong']} WRONG" if own["wrong"] else ""
            lines.append(
                f"{family:30} {name:14} {solved:>9} {_text(own['median_s']):>9} {_text(own['p90_s']):>8}{wrong}"
            )
    lines += ["", f"{'family':30} {'ratio of seconds':28} {'of':>5} {'median':>8} {'medians':>8} {'p90s':>8}"]
    for family, entry in figures["families"].items():
        for pair, own in entry["ratios"].items():
            values = [own[key] for key in ("median_of_ratios", "ratio_of_medians", "ratio_of_p90s")]
            lines.append(f"{family:30} {pair:28} {own['instances']:>5} " + " ".join(f"{_text(v):>8}" for v in values))
    return "\n".join(lines)


def _text(x: float | None) -> str:
    return "-" if x is None else f"{x:.3f}"
