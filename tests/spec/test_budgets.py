"""Budgets shrink boxes, never move them out of the query's."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest

from falsifier.errors import InputError
from falsifier.falsify import falsify
from falsifier.query import parse
from falsifier.spec import Spec, compile_query
from falsifier.spec.budgets import read_budgets, shrunk
from falsifier.verdict import Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


Side = tuple[float, ...]


def spec(clauses: str = "(assert (>= Y_0 0))", lower: Side = (0, 0, -1), upper: Side = (4, 1, 1)) -> Spec:
    n = len(lower)
    return compile_query(parse(models.declare(n, 1) + models.box(list(lower), list(upper)) + clauses), np.float32)


def test_boxes_shrink_around_their_centres() -> None:
    made = shrunk(spec(), np.array([1.0, np.inf, 0.25]))
    assert made.targets is not None
    assert made.targets.lower.tolist() == [[1, 0, -0.25]]
    assert made.targets.upper.tolist() == [[3, 1, 0.25]]
    assert made.targets.lower.dtype == np.float32


def test_bounds_are_rounded_inwards() -> None:
    for radius in (0.1, 1e-3, 1e-9):
        made = shrunk(spec(), np.array([radius, radius, radius]))
        assert made.targets is not None
        lower, upper = (side.astype(np.float64) for side in (made.targets.lower, made.targets.upper))
        centre = np.array([[2, 0.5, 0]])
        assert (lower <= upper).all()
        assert (centre - lower <= radius).all()
        assert (upper - centre <= radius).all()


def test_no_value_left_leaves_the_nearest() -> None:
    made = shrunk(spec(lower=(0.1, 0, 0), upper=(0.3, 1, 1)), np.array([0.0, 9, 9]))
    assert made.targets is not None
    assert made.targets.lower[0, 0] == made.targets.upper[0, 0]
    assert made.targets.lower[0, 0] == pytest.approx(0.2, abs=2e-8)


def test_a_tied_input_keeps_its_own_budget() -> None:
    tied = spec("(assert (== X_2 (* 2.0 X_1)))(assert (>= Y_0 0))", (0, -1, -2), (4, 1, 2))
    made = shrunk(tied, np.array([9, 0.5, 0.2]))
    assert made.targets is not None
    assert made.domain is not None
    points = made.domain.embed(np.concatenate([made.targets.lower, made.targets.upper]))
    np.testing.assert_allclose(points[:, 1:], [[-0.1, -0.2], [0.1, 0.2]], rtol=1e-6)


def test_inputs_searched_by_way_of_others_have_no_budget() -> None:
    near = "(assert (<= (- X_2 X_1) 0.01))(assert (>= (- X_2 X_1) -0.01))(assert (>= Y_0 0))"
    for clauses in ("(assert (== X_2 (+ X_1 X_0)))(assert (>= Y_0 0))", near):
        made = spec(clauses, (-1, -1, -2), (1, 1, 2))
        assert made.domain is not None
        group = made.domain.combination or made.domain.band
        assert group is not None
        at = int(group.tied[0])
        with pytest.raises(InputError, match=f"compares input {at} with others"):
            shrunk(made, np.full(3, 0.5))
        free = np.full(3, 0.5)
        free[group.tied] = np.inf
        assert shrunk(made, free).targets is not None


def test_sizes_that_differ_are_refused() -> None:
    with pytest.raises(InputError, match=r"here: 2 budgets, the query has 3 inputs"):
        shrunk(spec(), np.ones(2), "here")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no numpy file"),
        (b"nothing", "no numpy file"),
        (np.array([1.0, -2.0]), "-2 at position 1"),
        (np.array([1.0, np.nan]), "nan at position 1"),
        (np.array(["a"]), "array of numbers"),
    ],
)
def test_files_that_make_no_sense_are_refused(content: object, says: str, tmp_path: Path) -> None:
    path = tmp_path / "budgets.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, np.asarray(content))
    with pytest.raises(InputError, match=says):
        read_budgets(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_budgets(tmp_path / "missing.npy")


def test_a_budget_keeps_witnesses_near(tmp_path: Path) -> None:
    """The digits example is violated within its box, not at the centre."""
    files = EXAMPLES / "digits.onnx", EXAMPLES / "digits_violated.vnnlib"
    free = falsify(*files, timeout=60, max_evaluations=5000)
    assert free.verdict is Verdict.SAT
    none = tmp_path / "none.npy"
    np.save(none, np.zeros(64))
    assert falsify(*files, timeout=60, max_evaluations=2000, budgets=none).verdict is Verdict.UNKNOWN
    with pytest.raises(InputError, match="3 budgets, the query has 64 inputs"):
        falsify(*files, timeout=60, max_evaluations=2000, budgets=np.ones(3))
