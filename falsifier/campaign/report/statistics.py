"""Whether two samples differ, and by how much: Mann-Whitney U, Benjamini-Hochberg, Cohen's d (batch-fuzzing paper).

Needs scipy, which comes with the extras [report] and [experiments].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ALPHA = 0.05  # what counts as significant


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p-value; 1 where all values are equal. Raises ImportError without scipy."""
    from scipy.stats import mannwhitneyu

    if len(set(a) | set(b)) == 1:
        return 1.0
    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order given: the least p_j * m / rank_j over all p_j >= p, at most 1."""
    values = np.asarray(p, float)
    order = np.argsort(values)
    scaled = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.minimum.accumulate(scaled[::-1])[::-1]
    out = np.empty(len(values))
    out[order] = np.minimum(adjusted, 1.0)
    return [float(x) for x in out]


def cohens_d(a: Sequence[float], b: Sequence[float]) -> float:
    """Difference of the means over the pooled standard deviation; infinite where nothing varies but the means
    differ.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    weights = len(x) + len(y) - 2
    pooled = np.sqrt(((len(x) - 1) * x.var(ddof=1) + (len(y) - 1) * y.var(ddof=1)) / weights)
    difference = x.mean() - y.mean()
    if pooled == 0:
        return 0.0 if difference == 0 else float(np.copysign(np.inf, difference))
    return float(difference / pooled)
