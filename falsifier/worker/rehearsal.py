"""A search of nothing: it loads every module, library and kernel that the search of an instance comes to need."""

from __future__ import annotations

import numpy as np

from falsifier.falsify import Prepared, falsify
from falsifier.witness.text import write_witness

_EVALUATIONS = 2000
_SECONDS = 10.0
_BOX = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const X_2 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (and (>= X_0 -1.0) (<= X_0 1.0) (>= X_1 -1.0) (<= X_1 1.0) (>= X_2 -1.0) (<= X_2 1.0)))
"""


def rehearse() -> None:
    """Search a made-up network of three inputs, once with a witness in reach and once without."""
    model = _network()
    easy = falsify(model, _BOX + "(assert (>= Y_0 0.0))", timeout=_SECONDS, max_evaluations=_EVALUATIONS)
    if easy.witness is not None and easy.query is not None:
        write_witness(easy.query, easy.witness)
    Prepared(model, _BOX + "(assert (>= Y_0 Y_1))").warm()
    falsify(model, _BOX + "(assert (<= Y_0 -1.0))", timeout=_SECONDS, max_evaluations=_EVALUATIONS)


def _network() -> bytes:
    """relu(W x) twice: outputs are never negative."""
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["X", "W"], ["H"]), helper.make_node("Relu", ["H"], ["Y"])]
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 3])]
    outputs = [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 2])]
    graph = helper.make_graph(nodes, "rehearsal", inputs, outputs, [numpy_helper.from_array(weights, "W")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(model.SerializeToString())
