"""Einsum: contractions, diagonals, dots, broadcasting; operands with lanes and constants in every mixture."""

from __future__ import annotations

from itertools import product

import pytest
from onnx import helper
from operator_checks import check
from operator_graphs import draw, graph_model

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

EQUATIONS: dict[str, list[tuple[int, ...]]] = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(2, 2, 3), (2, 3, 2)],
    "bhid,bhjd->bhij": [(1, 2, 3, 2), (1, 2, 4, 2)],
    "ij->ji": [(2, 3)],
    "ij->i": [(2, 3)],
    "ii->i": [(3, 3)],
    "...ii->...i": [(2, 3, 3)],
    "ii": [(3, 3)],
    "iji->j": [(3, 2, 3)],
    "i,j->ij": [(3,), (4,)],
    "i,i->": [(3,), (3,)],
    "i,ij": [(3,), (3, 4)],
    "ij,jk,kl->il": [(2, 3), (3, 2), (2, 3)],
    "bij,bij->b": [(2, 2, 3), (2, 2, 3)],
    "ij,ij->ij": [(1, 4), (3, 4)],
    " i j , j k -> i k ": [(2, 3), (3, 4)],
    "...,...->...": [(2, 3), (2, 3)],
    "ij,k->i": [(2, 3), (2,)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation: str) -> None:
    shapes = EQUATIONS[equation]
    names = [f"x{i}" for i in range(len(shapes))]
    nodes = [helper.make_node("Einsum", names, ["y"], equation=equation)]
    for moving in product([False, True], repeat=len(shapes)):
        if any(moving):
            rows = list(zip(names, shapes, moving, strict=True))
            inputs = {name: shape for name, shape, m in rows if m}
            check(graph_model(nodes, inputs, {name: draw(*shape) for name, shape, m in rows if not m}))


def test_an_equation_that_does_not_fit_is_refused() -> None:
    nodes = [helper.make_node("Einsum", ["x"], ["y"], equation="ijk->i")]
    with pytest.raises(UnsupportedError, match="does not fit"):
        lower(graph_model(nodes, {"x": (2, 3)}))
