"""Planted 2.0 queries: one of each kind is found, the unsatisfiable ones are never answered with sat or are proved."""

from __future__ import annotations

import pytest
from generated_v2 import Outcome, searched, summary
from planted_regions import planted_regions
from planted_v2 import SAT, UNSAT, Planted, planted

from falsifier.query import parse
from falsifier.query.theories import theories

FEW = planted(1, 1, rng_seed=7)
REGIONS = planted_regions(1, 1, rng_seed=7)


@pytest.mark.parametrize("query", [q for q in FEW if q.expected == "sat"], ids=lambda q: q.name)
def test_found(query: Planted) -> None:
    outcome = searched(query, timeout=120, max_evaluations=300_000, judge=False)
    assert (outcome.verdict, outcome.judged, outcome.wrong) == ("sat", "exact by the door", False)


@pytest.mark.parametrize("query", [q for q in FEW if q.expected == "unsat"], ids=lambda q: q.name)
def test_never_found(query: Planted) -> None:
    outcome = searched(query, timeout=120, max_evaluations=20_000, judge=False)
    assert outcome.verdict in ("unknown", "unsat")
    assert not outcome.wrong


@pytest.mark.parametrize("query", REGIONS, ids=lambda q: q.name)
def test_regions(query: Planted) -> None:
    outcome = searched(query, timeout=300, max_evaluations=40_000, judge=False)
    assert (outcome.verdict, outcome.wrong) == (query.expected, False)
    assert outcome.judged in ("", "exact by the door")


def test_what_is_planted_covers_the_theories() -> None:
    needed = {name for query in FEW for name in theories(parse(query.text)).names}
    assert needed >= {"H", "NH", "SNET", "MENET", "MINET", "MNET", "MNC", "BND", "LIN", "POLY"}
    assert len({query.name for query in planted(2, 1)}) == 2 * len(SAT) + len(UNSAT)


def test_a_wrong_answer_is_told() -> None:
    right = Outcome("k", "k_0", "sat", "sat", "exact", "probe", 0.1, 5, "")
    rows = [("sat", "sat", "spec_not_violated"), ("unsat", "sat", "exact"), ("sat", "unsat", "")]
    assert not right.wrong
    assert all(Outcome("k", "k_0", e, v, j, None, 0.1, 5, "").wrong for e, v, j in rows)
    assert summary([right])["k"]["found"] == 1
