"""The paper's statistics (`falsifier.campaign.report.statistics`) over all pairs, with its thresholds, as a table.

Needs scipy, which comes with the extra [experiments].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from falsifier.campaign.report.statistics import ALPHA, benjamini_hochberg, cohens_d, mann_whitney

THRESHOLDS = ((13.0, "large"), (9.0, "medium"), (6.0, "small"))  # of |d|; below the last they count as equal
NO_SCIPY = "the tables need scipy, which comes with the extra [experiments]: pip install 'vnn-falsifier[experiments]'"


@dataclass(frozen=True)
class Comparison:
    """Two configurations: the p-value, adjusted over all pairs, Cohen's d (a over b), and what the paper calls it."""

    a: str
    b: str
    p: float
    adjusted: float
    d: float
    effect: str


def effect(d: float, adjusted: float) -> str:
    """`large`, `medium`, `small` or `equal`; `equal` as well where the difference is not significant."""
    if adjusted > ALPHA:
        return "equal"
    return next((name for least, name in THRESHOLDS if abs(d) >= least), "equal")


def compared(
    samples: Mapping[str, Sequence[float]], alike: Callable[[str, str], bool] = lambda a, b: True
) -> list[Comparison]:
    """All pairs of configurations, or those that are `alike`. Raises ImportError without scipy."""
    pairs = [(a, b) for a, b in combinations(samples, 2) if alike(a, b)]
    p = [mann_whitney(samples[a], samples[b]) for a, b in pairs]
    adjusted = benjamini_hochberg(p)
    out = []
    for (a, b), raw, corrected in zip(pairs, p, adjusted, strict=True):
        d = cohens_d(samples[a], samples[b])
        out.append(Comparison(a, b, raw, corrected, d, effect(d, corrected)))
    return out


_MARKS = {"large": "L", "medium": "M", "small": "S"}


def table(samples: Mapping[str, Sequence[float]], comparisons: Sequence[Comparison]) -> str:
    """A matrix: `>L` where the row's configuration is greater by a large effect, `<` where less, `=` where equal."""
    found = {(c.a, c.b): c for c in comparisons}
    width = max(4, *(len(name) + 1 for name in samples))
    lines = [" " * width + "".join(f"{name:>{width}}" for name in samples) + f"{'mean':>{width + 4}}"]
    for row in samples:
        cells = []
        for column in samples:
            pair = found.get((row, column)) or found.get((column, row))
            if pair is None or pair.effect == "equal":
                cells.append("." if row == column else "=")
                continue
            greater = (pair.d > 0) == (pair.a == row)
            cells.append(f"{'>' if greater else '<'}{_MARKS[pair.effect]}")
        mean = float(np.mean(samples[row]))
        lines.append(f"{row:<{width}}" + "".join(f"{c:>{width}}" for c in cells) + f"{mean:>{width + 4}.1f}")
    return "\n".join(lines)


def grid(samples: Mapping[str, Sequence[float]], comparisons: Sequence[Comparison]) -> str:
    """Means of configurations `mode-s`, modes below one another; then the pairs that differ."""
    modes = list(dict.fromkeys(name.rpartition("-")[0] for name in samples))
    scales = list(dict.fromkeys(name.rpartition("-")[2] for name in samples))
    lines = [f"{'s':<12}" + "".join(f"{s:>10}" for s in scales)]
    for mode in modes:
        means = [np.mean(samples[f"{mode}-{s}"]) if f"{mode}-{s}" in samples else np.nan for s in scales]
        lines.append(f"{mode:<12}" + "".join(f"{mean:>10.1f}" for mean in means))
    differ = [c for c in comparisons if c.effect != "equal"]
    lines += [f"{c.a} {'>' if c.d > 0 else '<'} {c.b}: {c.effect}, d {c.d:.1f}" for c in differ]
    return "\n".join([*lines, f"{len(differ)} of {len(comparisons)} pairs at one s differ"])
