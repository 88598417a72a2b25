"""Compiling queries with answers worked out by hand: boxes, disjuncts, rounding."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_engine import AnalyticEngine, NanEngine
from compiled_margins import SUMS, UNIT, X, Y, margins
from query_trees import bounds, columns, compare, query, slots, table

from falsifier.errors import InputError, UnsupportedError
from falsifier.problem import Problem
from falsifier.query.tree import (
    And,
    Compare,
    Constant,
    Formula,
    Or,
    Product,
    Reference,
    Relation,
    Sum,
    Term,
)
from falsifier.spec import Rounding, compile_query


class TestDisjuncts:
    either: Formula = Or((And((compare(Y[0], ">=", 0.9),)), And((compare(Y[0], "<=", 0.1),))))

    @pytest.mark.parametrize("first", [False, True])
    def test_an_assertion_beside_an_or_joins_every_disjunct(self, first: bool) -> None:
        """T01: as one more alternative it would make (1, 0) satisfy the query."""
        more = compare(Y[1], ">=", 1.8)
        what = query([*UNIT, *([more, self.either] if first else [self.either, more])], 2, 2)
        assert np.array(margins(what, SUMS, [[1, 0], [1, 1], [0, 1], [0.9, 0.9]])) == pytest.approx(
            [-0.8, 0.1, -0.8, 0]
        )
        assert max(margins(query([*UNIT, self.either, compare(Y[1], ">=", 2.5)], 2, 2), SUMS, [[1, 1], [0, 0]])) < 0

    def test_boxes_belong_to_their_disjunct(self) -> None:
        """T02: a box that leaked would cut (9.5, 3) off."""
        first = And((compare(X[0], ">=", 1), compare(X[0], "<=", 2), compare(Y[0], "<=", -100)))
        second = And((compare(X[1], ">=", 3), compare(X[1], "<=", 4), compare(Y[0], ">=", 9.5)))
        spec = compile_query(query([*bounds([-10, -10], [10, 10]), Or((first, second))], 2, 1))
        assert spec.targets is not None
        assert spec.targets.lower.tolist() == [[1, -10], [-10, 3]]
        assert spec.targets.upper.tolist() == [[2, 10], [10, 4]]
        found = Problem(spec, AnalyticEngine([[1.0, 0.0]], dtype=np.float32)).screen(np.array([[9.5, 3]], np.float32))
        assert found.tolist() == [[-np.inf, 0]]

    def test_an_or_over_boxes_times_an_or_over_outputs(self) -> None:
        boxes = table([[(0, ">=", 0.0), (0, "<=", 0.25)], [(0, ">=", 0.5), (0, "<=", 1.0)]])
        sides = Or((compare(Y[0], ">=", 2), compare(Y[0], "<=", 0), compare(Y[1], "==", 1)))
        spec = compile_query(query([*UNIT, boxes, sides], 2, 2))
        assert spec.targets is not None
        assert spec.disjuncts == 6
        assert spec.targets.disjunct.tolist() == [0, 1, 2, 3, 4, 5]
        assert spec.targets.lower[:, 0].tolist() == [0, 0, 0, 0.5, 0.5, 0.5]
        assert spec.targets.present.sum(axis=1).tolist() == [1, 1, 2, 1, 1, 2]

    def test_unequal_is_an_or_of_two(self) -> None:
        what = query([*UNIT, compare(Y[0], "!=", 0.5)], 2, 2)
        points = [[0.5, 0], [np.nextafter(0.5, 1), 0], [np.nextafter(0.5, 0), 0], [0, 0]]
        assert [m >= 0 for m in margins(what, SUMS, points)] == [False, True, True, True]

    def test_equal_slack_is_the_distance(self) -> None:
        what = query([*UNIT, compare(Y[0], "==", 0.5)], 2, 2)
        assert margins(what, SUMS, [[0.5, 0], [0.75, 0], [0.25, 0]]) == [0, -0.25, -0.25]

    def test_contradicting_disjuncts_are_dropped(self) -> None:
        neither = And((compare(Y[0], ">", 0.5), compare(0.5, ">=", Y[0])))
        spec = compile_query(query([*UNIT, Or((neither, compare(Y[1], ">=", 1)))], 2, 2))
        assert spec.targets is not None
        assert spec.targets.disjunct.tolist() == [1]
        spec = compile_query(query([*UNIT, neither], 2, 2))
        assert spec.empty
        assert "contradict" in spec.reason

    def test_comparisons_of_constants(self) -> None:
        assert compile_query(query([*UNIT, compare(1, "<", 0)], 2, 2)).empty
        spec = compile_query(
            query([*UNIT, compare(1, ">", 0), Or((compare(Y[0], "<", Y[0]), compare(1, "==", 1.0)))], 2, 2)
        )
        assert spec.targets is not None
        assert not spec.targets.present.any()

    def test_without_outputs_every_point_of_the_box_satisfies(self) -> None:
        assert margins(query(UNIT, 2, 2), SUMS, [[0, 0], [2, 0]]) == [np.inf, -np.inf]


class TestBoxes:
    line = AnalyticEngine([[1.0]])

    @pytest.mark.parametrize("order", [[10, 1], [1, 10]])
    def test_bounds_given_twice_intersect(self, order: list[float]) -> None:
        """T08 a, b."""
        what = query([*bounds([0], [order[0]]), *bounds([0], [order[1]]), compare(Reference(1), ">=", 2)], 1, 1)
        spec = compile_query(what)
        assert spec.targets is not None
        assert spec.targets.upper.tolist() == [[1]]

    def test_an_empty_box_is_reported_at_once(self) -> None:
        """T08 c."""
        spec = compile_query(query([*bounds([0.6], [0.4]), compare(Reference(1), ">=", 0)], 1, 1))
        assert spec.empty
        assert "empty input set" in spec.reason

    def test_strict_bounds_on_one_value_are_empty(self) -> None:
        both = [compare(Reference(0), ">", 0.5), compare(Reference(0), "<=", 0.5)]
        assert compile_query(query(both, 1, 1)).empty

    @pytest.mark.parametrize("own", [False, True])
    def test_bounds_that_meet_once_they_are_rounded_are_not_empty(self, own: bool) -> None:
        """float32(1.2) is 1.2000000476837158: readers that round bounds find a point there."""
        parts = (*bounds([0.2], [1.2]), compare(Reference(0), "==", 1.2000000476837158))
        either = [Or((And(parts), compare(Reference(0), "==", 5)))] if own else list(parts)
        spec = compile_query(query([*either, compare(Reference(1), ">=", 0)], 1, 1, (2, 0)), np.float32)
        assert spec.targets is not None
        assert spec.targets.disjunct.tolist() == ([0, 1] if own else [0])
        assert not spec.targets.exact[0]
        assert compile_query(query([*parts, compare(Reference(1), ">=", 0)], 1, 1, (2, 0)), np.float64).empty

    @pytest.mark.parametrize("version", [(1, 0), (2, 0)])
    def test_strict_bounds_do_not_meet(self, version: tuple[int, int]) -> None:
        both = [compare(Reference(0), ">", 1.2), compare(Reference(0), "<", 1.2000000476837158)]
        assert compile_query(query([*both, compare(Reference(1), ">=", 0)], 1, 1, version), np.float64).empty is False
        both[1] = compare(Reference(0), "<=", 1.2)
        assert compile_query(query([*both, compare(Reference(1), ">=", 0)], 1, 1, version), np.float32).empty

    def test_an_empty_disjunct_is_skipped(self) -> None:
        """T08 d."""
        clauses = table([[(0, ">=", 0.6), (0, "<=", 0.4)], [(0, ">=", 0.8), (0, "<=", 0.9)]])
        spec = compile_query(query([clauses, compare(Reference(1), ">=", 0.85)], 1, 1), np.float64)
        assert spec.targets is not None
        assert spec.targets.disjunct.tolist() == [1]
        assert Problem(spec, self.line).screen(np.array([[0.875]])).item() == pytest.approx(0.025)

    def test_pinned_inputs_are_constants(self) -> None:
        """T07."""
        low, high = [0, 0.5, -0.25], [1, 0.5, -0.25]
        spec = compile_query(query([*bounds(low, high), compare(Reference(3), ">=", 1.2)], 3, 1))
        assert spec.domain is not None
        assert spec.domain.free.tolist() == [0]
        assert spec.domain.base.tolist() == [0, 0.5, -0.25]
        problem = Problem(spec, AnalyticEngine([[1.0, 1, 1]], dtype=np.float32))
        assert problem.screen(np.array([[1], [0.5]], np.float32)).ravel() == pytest.approx([0.05, -0.45])

    @pytest.mark.parametrize(("value", "holds"), [(1, True), (0, False)])
    def test_a_single_point_takes_one_evaluation(self, value: float, holds: bool) -> None:
        low = [value, 0.5, -0.25]
        spec = compile_query(query([*bounds(low, low), compare(Reference(3), ">=", 1.2)], 3, 1))
        network = AnalyticEngine([[1.0, 1, 1]], dtype=np.float32)
        problem = Problem(spec, network)
        assert problem.f == 0
        lower, upper = problem.box(np.zeros(1, int))
        assert lower.shape == upper.shape == (1, 0)
        evaluation = problem.evaluate(lower, np.zeros(1, int))
        assert (evaluation.margin[0] >= 0) == holds
        assert network.runs == [1]

    def test_a_dimension_pinned_differently_is_free(self) -> None:
        clauses = table([[(0, ">=", 1.0), (0, "<=", 1.0)], [(0, ">=", 2.0), (0, "<=", 2.0)]])
        spec = compile_query(query([clauses], 1, 1))
        assert spec.domain is not None
        assert spec.domain.f == 1

    def test_an_unbounded_input_is_named(self) -> None:
        what = query([*bounds([0, 0], [1, 1]), compare(Reference(4), ">=", 0)], 4, 1)
        with pytest.raises(InputError, match=r"X_2 has no lower bound \(and 1 more input.*>= X_2 "):
            compile_query(what)

    def test_an_input_bounded_in_one_disjunct_only_is_named(self) -> None:
        clauses = table([[(0, ">=", 1.0), (0, "<=", 1.0)], [(0, ">=", 2.0)]])
        with pytest.raises(InputError, match="X_0 has no upper bound"):
            compile_query(query([clauses], 1, 1))

    def test_an_unbounded_input_of_an_empty_disjunct_does_not_matter(self) -> None:
        clauses = table([[(0, ">=", 1.0), (0, "<=", 1.0)], [(0, ">=", 2.0), (1, ">=", 1.0), (1, "<=", 0.0)]])
        assert not compile_query(
            query([*bounds([], []), clauses, compare(Reference(1), "<=", 5), compare(Reference(1), ">=", -5)], 2, 1)
        ).empty

    def test_a_comparison_with_a_bounded_input_bounds(self) -> None:
        """x_2 <= x_1 <= x_0 <= 1 and 2 x_3 <= 1 - x_0: the missing upper ends come from the neighbours."""
        x = slots(0, 4)
        twice = Product((compare(2, "<", 0).left, x[3]))
        chain = [compare(x[0], "<=", 1.0), compare(x[1], "<=", x[0]), compare(x[2], "<=", x[1])]
        chain.append(compare(Sum((twice, x[0])), "<=", 1))
        low = [compare(item, ">=", -1.0) for item in x]
        spec = compile_query(query([*low, *chain[::-1], compare(Reference(4), ">=", 0)], 4, 1), np.float64)
        assert spec.targets is not None
        assert spec.targets.upper[0, :3].tolist() == [1, 1, 1]
        assert spec.targets.upper[0, 3] == pytest.approx(1)
        assert spec.targets.upper[0, 3] >= 1
        problem = Problem(spec, AnalyticEngine([[1.0, 0, 0, 0]]))
        assert [m >= 0 for m in problem.screen(np.array([[0.5, 0.5, 0, 0], [0.5, 0.25, 0.5, 0]])).ravel()] == [
            True,
            False,
        ]

    def test_a_shared_box_is_kept_once(self) -> None:
        spec = compile_query(query([*UNIT, Or((compare(Y[0], ">=", 2), compare(Y[1], ">=", 2)))], 2, 2))
        assert spec.targets is not None
        assert spec.targets.lower.shape == (1, 2)

    def test_several_boxes_of_one_input(self) -> None:
        """The count of targets and boxes for 10^5 clauses over one input, without a Python loop in the way."""
        count = 100_000
        low = np.arange(count) / count
        value = np.stack([low, low + 0.5 / count, np.where(np.arange(count) % 2, 0.5, -0.5)], axis=1).reshape(-1)
        relation = np.tile([Relation.GE.code, Relation.LE.code, Relation.GE.code], count)
        spec = compile_query(
            query([columns(np.tile([0, 0, 1], count), relation, value, np.arange(count + 1) * 3)], 1, 1)
        )
        assert spec.targets is not None
        assert (spec.targets.t, spec.targets.k, spec.targets.forms.r) == (count, 1, 1)
        assert spec.targets.lower.shape == (count, 1)
        assert spec.targets.lower.nbytes == 4 * count
        assert spec.targets.exact.sum() == count


class TestRounding:
    def test_a_float32_box_is_rounded_inwards(self) -> None:
        """T04: float32(0.3) lies above 0.3."""
        what = query([*bounds([0.1], [0.3]), compare(Reference(1), ">=", 0.3)], 1, 1)
        spec = compile_query(what)
        assert spec.targets is not None
        assert float(spec.targets.lower.item()) >= 0.1
        assert float(spec.targets.upper.item()) == np.nextafter(np.float32(0.3), np.float32(0))
        assert spec.targets.exact.item()
        network = AnalyticEngine([[1.0]], dtype=np.float32)
        assert Problem(spec, network).screen(spec.targets.upper).item() < 0
        spec = compile_query(what, rounding=Rounding.NEAREST)
        assert spec.targets is not None
        assert spec.targets.upper.item() == np.float32(0.3)
        assert not spec.targets.exact.item()
        assert Problem(spec, network).screen(spec.targets.upper).item() >= 0

    def test_an_interval_without_a_float32_takes_the_nearest(self) -> None:
        spec = compile_query(query([*bounds([0.1, 0], [0.1, 1]), compare(Reference(2), ">=", 0.3)], 2, 1))
        assert spec.targets is not None
        assert spec.domain is not None
        assert spec.domain.base[0] == np.float32(0.1)
        assert spec.targets.exact.tolist() == [False]

    def test_strict_bounds_move_one_step_in(self) -> None:
        inside = [compare(Reference(0), ">", 0), compare(Reference(0), "<", 1)]
        spec = compile_query(query([*inside, compare(Reference(1), "<", 1)], 1, 1))
        assert spec.targets is not None
        assert spec.targets.lower.item() == np.nextafter(np.float32(0), np.float32(1))
        assert spec.targets.upper.item() == np.nextafter(np.float32(1), np.float32(0))
        assert spec.targets.bound.item() == -np.nextafter(np.float32(1), np.float32(0))

    @pytest.mark.parametrize("version", [(1, 0), (2, 0)])
    def test_strict_means_strict_under_both_rules(self, version: tuple[int, int]) -> None:
        """0.3 in float32 is above 0.3: > in float64, not in the float32 arithmetic of 2.0."""
        what = query([*bounds([0], [1]), compare(Reference(1), ">", 0.3)], 1, 1, version)
        spec = compile_query(what)
        assert spec.targets is not None
        edge = np.float32(0.3)
        assert spec.targets.bound.item() == (edge if version[0] == 1 else np.nextafter(edge, np.float32(1)))

    def test_bounds_beyond_float32_stay_finite(self) -> None:
        spec = compile_query(query(bounds([-1e39], ["1e300"]), 1, 1))
        assert spec.targets is not None
        assert np.isfinite([spec.targets.lower, spec.targets.upper]).all()

    def test_equality_counts_at_the_edge(self) -> None:
        """T12: -0.0 >= 0 holds, >= 1e-30 does not."""
        minus = AnalyticEngine([[-1.0]])
        for bound, holds in ((0.0, True), (1e-30, False)):
            what = query([*bounds([-1], [1]), compare(Reference(1), ">=", bound)], 1, 1)
            assert [m >= 0 for m in margins(what, minus, [[0.0]])] == [holds]

    def test_nan_satisfies_nothing(self) -> None:
        broken = NanEngine([[1.0]])
        for relation in ("<=", ">=", "!=", "==", "<", ">"):
            what = query([*bounds([-1], [1]), compare(Reference(1), relation, 0.5)], 1, 1)
            assert margins(what, broken, [[-0.5]]) == [-np.inf]


@pytest.mark.parametrize(
    "side", [Product((Constant("1e200"), Constant("1e200"))), Product((Constant("1e200"), Constant("1e200"), X[0]))]
)
def test_numbers_that_leave_the_range_of_float64(side: Term) -> None:
    for relation in (Relation.LE, Relation.GE):
        with pytest.raises(UnsupportedError, match="beyond the range of float64"):
            compile_query(query([*UNIT, Compare(relation, Sum((X[0], X[1])), side)], 2, 2))
