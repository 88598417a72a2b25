"""Compiling queries with answers worked out by hand: types, ties, growth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analytic_engine import AnalyticEngine
from compiled_margins import SUMS, UNIT, X, Y, margins
from query_trees import bounds, compare, query, slots, table

from falsifier.errors import InputError
from falsifier.problem import Problem
from falsifier.query.tree import (
    And,
    Kind,
    NetworkDeclaration,
    Or,
    Product,
    Query,
    Reference,
    Sum,
    Variable,
)
from falsifier.spec import Spec, compile_query


class TestTypes:
    def test_integer_inputs_have_integer_boxes(self) -> None:
        what = query([*bounds([0.5], [3.5]), compare(Reference(1), ">=", 3)], 1, 1, (2, 0), "int8")
        spec = compile_query(what)
        assert spec.targets is not None
        assert (spec.targets.lower.item(), spec.targets.upper.item()) == (1, 3)
        problem = Problem(spec, AnalyticEngine([[1.0]], dtype=np.float32))
        assert problem.integer.tolist() == [True]
        assert problem.embed(np.array([[2.4]], np.float32)).item() == 2

    def test_a_range_without_an_integer_is_empty(self) -> None:
        assert compile_query(query(bounds([0.25], [0.75]), 1, 1, (2, 0), "int64")).empty
        assert not compile_query(query(bounds([0.25], [0.75]), 1, 1)).empty
        assert compile_query(query(bounds([0.25], [0.75]), 1, 1), types=[np.dtype(np.int64)]).empty

    def test_small_integer_types_bound_themselves(self) -> None:
        spec = compile_query(query([compare(Reference(1), ">=", 3)], 1, 1, (2, 0), "uint8"))
        assert spec.targets is not None
        assert (spec.targets.lower.item(), spec.targets.upper.item()) == (0, 255)
        with pytest.raises(InputError, match=r"X_0 has no lower bound"):
            compile_query(query([compare(Reference(1), ">=", 3)], 1, 1), types=[np.dtype(np.int64)])

    def test_half_precision_inputs_lie_on_their_grid(self) -> None:
        spec = compile_query(query(bounds([0.1], [0.3]), 1, 1, (2, 0), "float16"))
        assert spec.targets is not None
        assert spec.domain is not None
        low, high = spec.targets.lower.item(), spec.targets.upper.item()
        narrow = np.array([0.1, 0.3], np.float16)  # the first lies below 0.1, the second above 0.3
        assert [low, high] == np.nextafter(narrow, narrow[::-1]).tolist()
        point = spec.domain.embed(np.array([[0.2]], np.float32)).item()
        assert point == np.float16(0.2)

    def test_hidden_elements_are_flat_outputs(self) -> None:
        network = NetworkDeclaration(
            "N",
            (Variable("X", Kind.INPUT, "real", (1,)),),
            (Variable("Y", Kind.OUTPUT, "real", (1,)),),
            (Variable("H", Kind.HIDDEN, "real", (2,), "relu"),),
        )
        spec = compile_query(Query((2, 0), (network,), (*bounds([0], [1]), compare(Reference(2), ">=", 0))))
        assert (spec.n, spec.m) == (1, 3)
        assert spec.targets is not None
        assert spec.targets.forms.outputs.tolist() == [[0, 1, 0]]


class TestTies:
    def two_networks(self, *more: Any, relation: str = "==") -> Spec:
        """f and g of two inputs and an output each; only f's inputs are boxed."""
        f = NetworkDeclaration(
            "f", (Variable("X", Kind.INPUT, "real", (2,)),), (Variable("Y", Kind.OUTPUT, "real", (1,)),)
        )
        g = NetworkDeclaration(
            "g", (Variable("U", Kind.INPUT, "real", (2,)),), (Variable("V", Kind.OUTPUT, "real", (1,)),)
        )
        box = bounds([0, -1], [1, 2])
        tie = [compare(Reference(i), relation, Reference(3 + i)) for i in range(2)]
        return compile_query(Query((2, 0), (f, g), (*box, *tie, *more)), np.float64)

    def test_inputs_of_two_networks(self) -> None:
        spec = self.two_networks(compare(Reference(2), "<", Reference(5)))
        assert (spec.n, spec.m) == (4, 2)
        assert spec.domain is not None
        assert spec.domain.free.tolist() == [0, 1]
        problem = Problem(spec, AnalyticEngine(np.eye(4)[[0, 3]]))
        assert problem.embed(np.array([[0.5, 1.5]])).tolist() == [[0.5, 1.5, 0.5, 1.5]]
        assert [m >= 0 for m in problem.screen(np.array([[0.5, 1.5], [0.5, 0.5]])).ravel()] == [True, False]

    def test_a_pair_of_inequalities_is_an_equality(self) -> None:
        both = [compare(Reference(a), "<=", Reference(b)) for a, b in ((0, 3), (3, 0), (1, 4), (4, 1))]
        spec = self.two_networks(*both, relation="<=")
        assert spec.domain is not None
        assert spec.domain.f == 2

    def test_bounds_of_what_is_tied_are_bounds_of_its_source(self) -> None:
        spec = self.two_networks(compare(Reference(3), ">=", 0.5), compare(Reference(4), "<", 0))
        assert spec.targets is not None
        assert spec.targets.lower.tolist() == [[0.5, -1]]
        assert spec.targets.upper.tolist() == [[1, np.nextafter(0, -1)]]

    def test_linear_ties_are_eliminated(self) -> None:
        """x_2 = 2 x_0 - 1, x_3 = x_0 + x_1: gradients flow back through both."""
        x = slots(0, 4)
        ties = [
            compare(x[2], "==", Sum((Product((compare(2, "<", 2).left, x[0])), compare(-1, "<", 2).left))),
            compare(x[3], "==", Sum((x[0], x[1]))),
        ]
        spec = compile_query(
            query([*bounds([0, 0, 0, 0], [1, 1, 1, 1.5]), *ties, compare(Reference(4), ">=", 3)], 4, 1), np.float64
        )
        assert spec.domain is not None
        assert spec.targets is not None
        assert spec.domain.f == 2
        assert spec.domain.embed(np.array([[0.75, 0.25]])).tolist() == [[0.75, 0.25, 0.5, 1.0]]
        assert spec.domain.pull(np.ones((1, 4))).tolist() == [[4, 2]]
        assert spec.targets.lower[0, 0] == pytest.approx(0.5)

    def test_contradicting_equalities_are_empty(self) -> None:
        x = slots(0, 2)
        unequal = [compare(x[0], "==", x[1]), compare(x[0], "==", Sum((x[1], compare(1, "<", 1).left)))]
        spec = compile_query(query([*bounds([0, 0], [1, 1]), *unequal], 2, 1))
        assert spec.empty
        assert "contradict" in spec.reason

    @pytest.mark.parametrize("leading", [0, 1])
    def test_the_narrower_of_two_integer_types_bounds_both(self, leading: int) -> None:
        pair: list[np.dtype[Any]] = [np.dtype(np.int64), np.dtype(np.int8)]
        types = pair[:: 1 - 2 * leading]
        inputs = (Variable("A", Kind.INPUT, "real", (1,)), Variable("B", Kind.INPUT, "real", (1,)))
        network = NetworkDeclaration("N", inputs, (Variable("Y", Kind.OUTPUT, "real", (1,)),))
        what = Query((2, 0), (network,), (*bounds([-9], [900]), compare(Reference(0), "==", Reference(1))))
        spec = compile_query(what, types=types)
        assert spec.targets is not None
        assert (spec.targets.lower.tolist(), spec.targets.upper.tolist()) == ([[-9]], [[127]])

    def test_a_float64_that_equals_a_float32_takes_its_values(self) -> None:
        inputs = (Variable("A", Kind.INPUT, "real", (1,)), Variable("B", Kind.INPUT, "real", (1,)))
        network = NetworkDeclaration("N", inputs, (Variable("Y", Kind.OUTPUT, "real", (1,)),))
        what = Query((2, 0), (network,), (*bounds([0], ["0.1"]), compare(Reference(0), "==", Reference(1))))
        spec = compile_query(what, np.float64, types=[np.dtype(np.float64), np.dtype(np.float32)])
        assert spec.domain is not None
        assert spec.targets is not None
        assert spec.targets.upper.item() == np.nextafter(np.float32(0.1), np.float32(0))
        third = np.float64(np.float32(1 / 3))
        assert spec.domain.embed(np.array([[1 / 3]])).tolist() == [[third, third]]

    def test_an_integer_is_never_tied_to_a_real(self) -> None:
        inputs = (Variable("R", Kind.INPUT, "real", (1,)), Variable("I", Kind.INPUT, "int8", (1,)))
        network = NetworkDeclaration("N", inputs, (Variable("Y", Kind.OUTPUT, "real", (1,)),))
        what = Query((2, 0), (network,), (*bounds([0, 0], [5, 4.5]), compare(Reference(0), "==", Reference(1))))
        spec = compile_query(what)
        assert spec.domain is not None
        assert spec.domain.free.tolist() == [1]
        assert spec.domain.integer.tolist() == [True]
        assert spec.domain.embed(np.array([[2.2]], np.float32)).tolist() == [[2, 2]]


class TestGrowth:
    def wide(self, factors: int) -> Query:
        """`factors` conjuncts of two alternatives each: 2^factors disjuncts."""
        either = [Or((compare(Y[0], ">=", i / 64), compare(Y[1], "<=", 1 - i / 64))) for i in range(factors)]
        return query([*UNIT, *either], 2, 2)

    def test_small_products_are_expanded(self) -> None:
        spec = compile_query(self.wide(8))
        assert spec.tree is None
        assert spec.disjuncts == 256

    def test_large_ones_become_a_tree(self) -> None:
        spec = compile_query(self.wide(60), np.float64)
        assert spec.tree is not None
        assert spec.targets is not None
        assert spec.targets.t == 1
        problem = Problem(spec, SUMS)
        assert problem.k == 60
        point = np.array([[0.5, 0.125]])
        evaluation = problem.evaluate(point, np.zeros(1, int))
        expected = [max(0.5 - i / 64, 1 - i / 64 - 0.625) for i in range(60)]
        assert evaluation.slack[0] == pytest.approx(expected)

    def test_a_tree_still_has_a_box(self) -> None:
        """Inputs bounded only inside an `or` get the hull."""
        clauses = [
            Or((And((compare(X[0], ">=", i), compare(X[0], "<=", i + 1))), compare(X[0], "==", 7))) for i in range(40)
        ]
        spec = compile_query(query([*clauses, *bounds([0, 0], [9, 1])[2:]], 2, 2))
        assert spec.tree is not None
        assert spec.targets is not None
        assert (spec.targets.lower[0, 0], spec.targets.upper[0, 0]) == (7, 7) or spec.targets.lower[0, 0] >= 0

    def test_boxes_that_do_not_fit_in_memory_become_atoms(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clauses = [[(0, ">=", i / 8), (0, "<=", i / 8 + 0.0625), (2, ">=", i / 8)] for i in range(8)]
        what = query([*UNIT, table(clauses)], 2, 2)
        points = [[i / 32, 0.0] for i in range(33)]
        expected = [m >= 0 for m in margins(what, SUMS, points)]
        monkeypatch.setattr("falsifier.spec.boxes.MAX_CELLS", 10)
        spec = compile_query(what, np.float64)
        assert spec.tree is not None
        assert spec.targets is not None
        assert (spec.targets.lower[0, 0], spec.targets.upper[0, 0]) == (0, 0.9375)
        assert [m >= 0 for m in margins(what, SUMS, points)] == expected
        assert any(expected)

    def test_a_tree_with_a_table_that_cannot_hold(self) -> None:
        never = table([[(2, "<", Y[0])], [(2, ">", Y[0])]])
        what = query([*UNIT, Or((never, compare(Y[0], ">=", 0.5)))], 2, 2)
        assert [m >= 0 for m in margins(what, SUMS, [[0.5, 0], [0.25, 0]], growth=-(10**9))] == [True, False]

    def test_deep_formulas_do_not_recurse(self) -> None:
        deep: Any = compare(Y[0], ">=", 0.5)
        long: Any = Y[0]
        for i in range(5000):
            deep = And((Or((deep, compare(Y[1], ">=", 3))), compare(Y[0], "<=", 2))) if i % 2 else Or((deep,))
            long = Sum((long, compare(0.5, "<", 0).left))
        spec = compile_query(query([*UNIT, deep, compare(long, ">=", 2501)], 2, 2), np.float64)
        problem = Problem(spec, SUMS)
        assert problem.screen(np.array([[1.0, 0.0], [0.5, 0.5]])).max(axis=1).tolist() == [0, -0.5]
