"""Small models of many kinds, for the fuzzing of networks."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper


def seeds() -> list[bytes]:
    """Models in bytes: dense, convolutional, attention-like, shapes that are computed, an If, a function."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    def integers(name: str, *values: int) -> TensorProto:
        return numpy_helper.from_array(np.array(values, np.int64), name)

    node = helper.make_node
    flat, image = _tensor("X", [1, 4]), _tensor("X", [1, 2, 4, 4])
    dense = [node("Gemm", ["X", "W", "b"], ["t0"], transB=1), node("Relu", ["t0"], ["t1"])]
    models = [
        _model(
            [*dense, node("MatMul", ["t1", "V"], ["Y"])], flat, [weight("W", 3, 4), weight("b", 3), weight("V", 3, 2)]
        ),
        _model(
            [
                node("Conv", ["X", "W"], ["t0"], pads=[1, 1, 1, 1]),
                node("Relu", ["t0"], ["t1"]),
                node("MaxPool", ["t1"], ["t2"], kernel_shape=[2, 2], strides=[2, 2]),
                node("Flatten", ["t2"], ["t3"]),
                node("Gemm", ["t3", "V"], ["Y"]),
            ],
            image,
            [weight("W", 3, 2, 3, 3), weight("V", 12, 2)],
        ),
        _model(
            [
                node("Reshape", ["X", "s"], ["t0"]),
                node("Transpose", ["t0"], ["t1"], perm=[1, 0]),
                node("MatMul", ["t0", "t1"], ["t2"]),
                node("Softmax", ["t2"], ["t3"], axis=-1),
                node("ReduceSum", ["t3", "a"], ["Y"], keepdims=1),
            ],
            flat,
            [integers("s", 2, 2), integers("a", 1)],
        ),
        _model(
            [
                node("Shape", ["X"], ["s"]),
                node("Gather", ["s", "i"], ["d"], axis=0),
                node("Concat", ["d", "i"], ["n"], axis=0),
                node("ConstantOfShape", ["n"], ["z"]),
                node("Slice", ["X", "i", "e", "i"], ["t0"]),
                node("ReduceMax", ["z"], ["r"], keepdims=0),
                node("Add", ["t0", "r"], ["Y"]),
            ],
            flat,
            [integers("i", 1), integers("e", 3)],
        ),
        _model(
            [
                node("QuantizeLinear", ["X", "c", "q"], ["t0"]),
                node("DequantizeLinear", ["t0", "c", "q"], ["t1"]),
                node("LSTM", ["u", "W", "R"], ["", "h"], hidden_size=2),
                node("Unsqueeze", ["t1", "a"], ["u"]),
                node("Squeeze", ["h", "a"], ["Y"]),
            ],
            flat,
            [
                numpy_helper.from_array(np.array(0.1, np.float32), "c"),
                numpy_helper.from_array(np.array(3, np.uint8), "q"),
                weight("W", 1, 8, 4),
                weight("R", 1, 8, 2),
                integers("a", 0),
            ],
        ),
    ]
    branches = [
        helper.make_graph([node(op, ["X"], [f"o{op}"])], op, [], [_tensor(f"o{op}", None)]) for op in ("Relu", "Neg")
    ]
    chosen = [node("ReduceSum", ["X"], ["t0"], keepdims=0), node("Cast", ["t0"], ["t1"], to=TensorProto.BOOL)]
    chosen.append(node("If", ["t1"], ["Y"], then_branch=branches[0], else_branch=branches[1]))
    models.append(_model(chosen, flat, []))
    return models


def _tensor(name: str, shape: list[int] | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _model(nodes: list[NodeProto], x: ValueInfoProto, constants: list[TensorProto]) -> bytes:
    graph: GraphProto = helper.make_graph(nodes, "g", [x], [_tensor("Y", None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
