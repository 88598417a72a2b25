"""Both engines and their gradients judged by the cases that the onnx package ships; all of them with `-m whole`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from onnx_case_data import Case, OutOfScope, load_cases
from onnx_case_gradients import Agreement, judge_gradient
from onnx_cases import ENGINES, Outcome, judge_all

EVERY = 12  # the default run takes every 12th case


@pytest.fixture(scope="module")
def cases() -> list[Case | OutOfScope]:
    """All cases, in a fixed order."""
    return load_cases()


def test_the_package_ships_the_cases_that_the_documentation_counts(cases: list[Case | OutOfScope]) -> None:
    assert len(cases) > 1900
    assert len({(case.kind, case.name) for case in cases}) == len(cases)
    assert {case.kind for case in cases} == {"node", "simple", "pytorch-converted", "pytorch-operator"}


def test_a_sample_of_cases_is_right_or_refused(cases: list[Case | OutOfScope]) -> None:
    _no_wrong_outcome(cases[::EVERY])


@pytest.mark.whole
@pytest.mark.parametrize("part", range(1, EVERY))
def test_every_case_is_right_or_refused(cases: list[Case | OutOfScope], part: int) -> None:
    _no_wrong_outcome(cases[part::EVERY])


def test_a_sample_of_gradients_is_right(cases: list[Case | OutOfScope]) -> None:
    _no_wrong_gradient(cases[:: 2 * EVERY])


@pytest.mark.whole
@pytest.mark.parametrize("part", range(1, 2 * EVERY))
def test_every_gradient_is_right(cases: list[Case | OutOfScope], part: int) -> None:
    _no_wrong_gradient(cases[part :: 2 * EVERY])


def _no_wrong_outcome(cases: Sequence[Case | OutOfScope]) -> None:
    judgements = judge_all(cases, ENGINES)
    bad = [j for j in judgements if j.outcome in (Outcome.WRONG, Outcome.FAILED)]
    assert not bad, "\n".join(f"{j.case} ({j.engine}, {j.reading}): {j.outcome.value}: {j.message}" for j in bad)
    for engine in ENGINES:
        passed = sum(j.outcome is Outcome.PASS for j in judgements if j.engine == engine)
        assert passed > 0.65 * len(cases)


def _no_wrong_gradient(cases: Sequence[Case | OutOfScope]) -> None:
    found = [j for case in cases if isinstance(case, Case) and (j := judge_gradient(case)) is not None]
    bad = [j for j in found if j.agreement is Agreement.WRONG or j.autograd is False or j.engines is False]
    assert not bad, "\n".join(map(str, bad))
    assert sum(j.agreement is Agreement.RIGHT for j in found) > 0.8 * len(found)
