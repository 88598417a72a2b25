"""The statistics against values by hand."""

from __future__ import annotations

import numpy as np
import pytest

from falsifier.campaign.report.statistics import benjamini_hochberg, cohens_d, mann_whitney


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert benjamini_hochberg([0.9, 1.0]) == [1.0, 1.0]


def test_cohens_d_by_hand() -> None:
    assert cohens_d([1, 2, 3], [3, 4, 5]) == pytest.approx(-2)
    assert cohens_d([1, 1], [1, 1]) == 0
    assert cohens_d([2, 2], [1, 1]) == np.inf


def test_mann_whitney_by_hand() -> None:
    pytest.importorskip("scipy", reason="the extra [report]")
    assert mann_whitney([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]) == pytest.approx(2 / 252)  # the least of five and five
    assert mann_whitney([1, 1], [1, 1]) == 1
