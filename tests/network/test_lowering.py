"""Lowering: every lane of the program is what one sample of the original gives; what cannot be lowered is refused."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto, helper, numpy_helper, parser
from small_networks import AFFINE, KINKED, SMOOTH, read

from falsifier.errors import UnsupportedError
from falsifier.network import folding
from falsifier.network.lowering import lower
from falsifier.network.onnxruntime_engine import OnnxruntimeEngine
from falsifier.network.operators import FILES, LOWERINGS, PRIMITIVES, Node
from falsifier.network.program import Builder, Value
from falsifier.network.reference import Reference

Array = NDArray[Any]
NETWORKS = {**AFFINE, **KINKED, **SMOOTH}


def lanes_of_reference(model: ModelProto, x: Array) -> Array:
    reference = Reference(model.SerializeToString())
    return np.stack([reference.run_flat(point) for point in x])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_lane_is_one_sample(name: str) -> None:
    model = NETWORKS[name]
    engine = OnnxruntimeEngine(lower(model))
    x = np.random.default_rng(0).uniform(-2, 2, (5, engine.n)).astype(engine.dtype)
    expected = lanes_of_reference(model, x)
    np.testing.assert_allclose(engine.outputs(x), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(engine.outputs(x[2:3]), expected[2:3], rtol=2e-5, atol=2e-5)
    assert engine.m == expected.shape[1]


def test_a_batch_axis_in_a_softmax_stays_inside_its_lane() -> None:
    """(3, -3) gives 0.9951 alone; a batch that runs through the softmax would give less."""
    engine = OnnxruntimeEngine(lower(NETWORKS["softmax over the leading axis"]))
    y = engine.outputs(np.array([[3.0, -3.0], [0.0, 0.0], [1.0, 5.0]]))
    assert y[0, 0] == pytest.approx(np.tanh(3.0), abs=1e-6)
    assert y[1, 0] == pytest.approx(0, abs=1e-6)


def test_integer_bool_and_half_inputs_are_cast_from_flat_points() -> None:
    model = read(
        """net (int64[2] i, bool[1] b, float16[1] h, float[1] f) => (float[2] p, float[1] q, float[1] r) {
        p = Cast <to = 1> (i)
        q = Cast <to = 1> (b)
        g = Cast <to = 1> (h)
        r = Add (g, f)
        }"""
    )
    engine = OnnxruntimeEngine(lower(model))
    x = np.array([[1.9, -1.9, 0.5, 0.1, 1.0], [3, -4, 0, 2, 0.25]], dtype=np.float32)
    half = np.float32(np.float16(0.1))
    expected = np.array([[1, -1, 1, half + 1], [3, -4, 0, 2.25]], dtype=np.float32)
    np.testing.assert_array_equal(engine.outputs(x), expected)
    np.testing.assert_array_equal(lanes_of_reference(model, x), expected)


def test_half_precision_is_computed_in_float32() -> None:
    model = read(
        """net (float16[1,2] x) => (float16[1,2] y) <float[2] w = {1.0,3.0}> {
        h = Cast <to = 10> (w)
        p = Mul (x, h)
        y = Relu (p)
        }"""
    )
    lowered = lower(model)
    assert {v.dtype for v in lowered.program.values.values()} <= {np.dtype(np.float32), np.dtype(np.float16)}
    x = np.array([[0.5, -0.25], [1.0, 0.125]], dtype=np.float32)
    np.testing.assert_allclose(OnnxruntimeEngine(lowered).outputs(x), lanes_of_reference(model, x), rtol=2e-3)


def test_open_dimensions_are_one_or_as_given() -> None:
    model = read("""net (float[N,C] x) => (float[N,C] y) { y = Relu (x) }""")
    assert lower(model).n == 1
    lowered = lower(model, [(2, 3)])
    assert lowered.inputs[0].shape == (2, 3)
    assert lowered.output_values[0] is not None
    assert lowered.output_values[0].shape == (2, 3)


def test_tensors_are_named_as_in_the_model() -> None:
    lowered = lower(AFFINE["reshape target computed from the shape"])
    assert isinstance(lowered.tensors["x"], Value)
    np.testing.assert_array_equal(lowered.tensors["t"], [1, -1])
    assert lowered.tensors["y"].shape == (1, 12)  # type: ignore[union-attr]


def test_matmul_and_bias_become_one_product_that_still_has_its_tensor() -> None:
    model = AFFINE["rows of a sequence"]
    lowered = lower(model)
    assert "Gemm" in [p.op for p in lowered.program.primitives]
    engine = OnnxruntimeEngine(lowered)
    x = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    found = engine.activations(x, ["m", "y"])
    bias = np.tile(np.array([0.5, -0.5], dtype=np.float32), 4)
    np.testing.assert_allclose(found["m"] + bias, found["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sparse products", "sparse products with a sum"])
def test_matrices_with_few_numbers_per_column_are_gathered(name: str) -> None:
    ops = {p.op for p in lower(AFFINE[name]).program.primitives}
    assert "Gather" in ops
    assert not ops & {"MatMul", "Gemm"}


@pytest.mark.parametrize("shape", [(64, 64), (1000, 10)])
def test_matrices_with_many_numbers_or_few_rows_are_multiplied(shape: tuple[int, int]) -> None:
    from models import affine

    matrix = np.eye(*shape) if shape[0] == shape[1] else np.ones(shape)
    assert {p.op for p in lower(affine(matrix)).program.primitives} == {"Gemm"}


@pytest.mark.parametrize(
    ("opset", "node"),
    [(10, "<ratio = 0.5> (x)"), (12, "(x, half, no)"), (12, "(x, zero, yes)"), (13, "(x)"), (13, "(x, zero, yes)")],
)
def test_dropout_that_drops_nothing_is_the_identity_with_the_mask_of_its_opset(opset: int, node: str) -> None:
    head = "net (float[1,2] x) => (float[1,2] y) <float half = {0.5}, float zero = {0}, bool yes = {1}, bool no = {0}>"
    body = ["d, m = Dropout " + node, "f = Cast <to = 1> (m)", "y = Add (d, f)"]
    model = read("\n".join([head, "{", *body, "}"]), opset)
    x = np.array([1.0, -2.0], dtype=np.float32)
    expected = Reference(model.SerializeToString()).run_flat(x)
    np.testing.assert_array_equal(OnnxruntimeEngine(lower(model)).outputs(x[None]), expected[None])


def test_what_outputs_do_not_need_is_not_lowered() -> None:
    model = read(
        """net (float[1,2] x) => (float[1,2] y) {
        n = NonZero (x)
        y = Relu (x)
        }"""
    )
    assert [p.op for p in lower(model).program.primitives] == ["Relu"]


def test_nodes_may_stand_in_any_order() -> None:
    model = read("""net (float[1,2] x) => (float[1,2] y) { a = Neg (x) y = Relu (a) }""")
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    y = OnnxruntimeEngine(lower(model)).outputs(np.array([[-1.0, 2.0]], dtype=np.float32))
    np.testing.assert_array_equal(y, [[1, 0]])


def test_if_on_a_constant_is_its_branch() -> None:
    def branch(op: str) -> GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], ["r"])],
            op,
            [],
            [helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 2])],
        )

    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Equal", ["n", "two"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(2, dtype=np.int64), "two")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    got = OnnxruntimeEngine(lower(model)).outputs(np.array([[3.0, -4.0]], dtype=np.float32))
    np.testing.assert_array_equal(got, [[-3, 4]])


def test_an_operator_without_a_rule_is_its_function_body() -> None:
    """The attribute `reduction` reaches the nodes of the body, and the body's own calls."""
    assert "NegativeLogLikelihoodLoss" not in LOWERINGS
    model = read(
        """net (float[2,3] x) => (float y) <int64[2] t = {0,2}> {
        y = NegativeLogLikelihoodLoss <reduction = "sum"> (x, t)
        }"""
    )
    got = OnnxruntimeEngine(lower(model)).outputs(np.arange(6, dtype=np.float32)[None])
    np.testing.assert_array_equal(got, [[-(0 + 5)]])


def test_functions_of_the_model_are_expanded() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
        net (float[1,2] x) => (float[1,2] y) { y = local.twice <times = 3.0> (x) }
        <domain: "local", opset_import: ["" : 13]>
        twice <times> (a) => (b) {
        c = Constant <value_float: float = @times> ()
        b = Mul (a, c)
        }"""
    )
    got = OnnxruntimeEngine(lower(model)).outputs(np.array([[1.0, -2.0]], dtype=np.float32))
    np.testing.assert_array_equal(got, [[3, -6]])


def test_attributes_that_a_call_leaves_out_are_those_of_the_function() -> None:
    """Of calls in the graph, in a branch and in another function; onnxruntime says the same."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
        net (float[1,2] x) => (float[1,2] y) <bool yes = {1}> {
        a = local.times (x)
        b = If (yes) <
          then_branch = g () => (float[1,2] c) { c = local.times (a) },
          else_branch = h () => (float[1,2] d) { d = Neg (a) }
        >
        e = local.times <factor = 3.0> (b)
        y = local.twice (e)
        }
        <domain: "local", opset_import: ["" : 13]>
        times <factor: float = 5.0> (a) => (b) {
        c = Constant <value_float: float = @factor> ()
        b = Mul (a, c)
        }
        <domain: "local", opset_import: ["" : 13, "local" : 1]>
        twice (a) => (b) {
        c = local.times (a)
        b = local.times <factor = 7.0> (c)
        }"""
    )
    x = np.array([[1.0, -2.0]], dtype=np.float32)
    got = OnnxruntimeEngine(lower(model)).outputs(x)
    np.testing.assert_array_equal(got, 5 * 5 * 3 * 5 * 7 * x)
    np.testing.assert_array_equal(Reference(model.SerializeToString()).run_flat(x[0]), got[0])


def _sparse(name: str, places: NDArray[Any]) -> SparseTensorProto:
    values = numpy_helper.from_array(np.array([2.0, -3.0, 5.0], dtype=np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places), [2, 3])


@pytest.mark.parametrize("places", [np.array([0, 4, 5]), np.array([[0, 0], [1, 1], [1, 2]])])
@pytest.mark.parametrize("initializer", [True, False])
def test_sparse_constants_are_filled_up(places: NDArray[Any], *, initializer: bool) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    if not initializer:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=_sparse("", places)))
    model = models.model(nodes, [models.tensor("x", [1, 2])], [models.tensor("y", [1, 3])])
    if initializer:
        model.graph.sparse_initializer.append(_sparse("w", places))
    x = np.array([[1.0, 2.0]], dtype=np.float32)
    got = OnnxruntimeEngine(lower(model)).outputs(x)
    np.testing.assert_array_equal(got, [[2, -6, 10]])
    np.testing.assert_array_equal(Reference(model.SerializeToString()).run_flat(x[0]), got[0])


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2"])
@pytest.mark.parametrize("how", ["tensor", "axis", "block", "Cast"])
def test_weights_of_few_bits_are_folded(kind: str, how: str) -> None:
    if kind.startswith("FLOAT") and how == "block":
        how = "axis"  # onnxruntime has blocks of integers alone
    code = getattr(TensorProto, kind)
    numbers = [1, 2, 3, 4, 5, 6, 7, 0] if kind == "UINT4" else [-8, -3, 1, 7, 5, -1, 2, 0]
    shapes: dict[str, list[int]] = {"tensor": [], "axis": [2], "block": [2, 2]}
    constants = [helper.make_tensor("q", code, [4, 2], numbers)]
    step = helper.make_node("Cast", ["q"], ["w"], to=TensorProto.FLOAT)
    if how != "Cast":
        scale = np.array([0.5, 0.25, 2.0, 1.0])[: int(np.prod(shapes[how]))].reshape(shapes[how])
        constants.append(models.constant("s", scale))
        zeros = [1, 2, 1, 0] if "INT" in kind else [0, 0, 0, 0]
        constants.append(helper.make_tensor("z", code, shapes[how], zeros[: scale.size]))
        settings: dict[str, Any] = {"axis": 0, "block_size": 2} if how == "block" else {"axis": 1}
        step = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **settings)
    # not a MatMul: onnxruntime rounds the other factor too where the weights have 4 bits
    nodes = [step, helper.make_node("Mul", ["x", "w"], ["y"])]
    model = models.model(nodes, [models.tensor("x", [4, 2])], [models.tensor("y", [4, 2])], constants, opset=21)
    model.ir_version = 10
    x = np.array([1.0, 2.0, -3.0, 0.5, 1.0, -1.0, 0.25, 7.0], dtype=np.float32)
    got = OnnxruntimeEngine(lower(model)).outputs(x[None])
    np.testing.assert_array_equal(got[0], Reference(model.SerializeToString()).run_flat(x))


def test_empty_parts_are_constants() -> None:
    model = read(
        """net (float[1,3] x) => (float[1,3] y) <int64[2] n = {3,0}> {
        a, b = Split <axis = 1> (x, n)
        y = Concat <axis = 1> (b, a)
        }"""
    )
    x = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)
    np.testing.assert_array_equal(OnnxruntimeEngine(lower(model)).outputs(x), x)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("net (float[1,2] x) => (float[1,2] y) { r = RandomNormalLike (x) y = Add (x, r) }", "RandomNormalLike"),
        ("net (float[1,2] x) => (int64[2,N] y) { y = NonZero (x) }", "NonZero"),
        ("net (float[1,2] x, int64[2] s) => (float[A,B] y) { y = Reshape (x, s) }", "depends on the input"),
        ("net (float[1,2] x) => (float[1,2] y) <float[1,3] w = {1.0,2.0,3.0}> { y = Add (x, w) }", "broadcast"),
        ("net (float[1,2] x) => (float[1,1] y) <float[3,1] w = {1.0,2.0,3.0}> { y = MatMul (x, w) }", "multiplied"),
        ("net (string[1] x) => (string[1] y) { y = Identity (x) }", "element type"),
        ("net (float[2] x) => (float[2] y) { y = Add (x, nowhere) }", "never made"),
    ],
)
def test_what_cannot_be_lowered_is_refused_in_one_line(body: str, words: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        lower(read(body))
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_unknown_domain_and_unknown_operator_are_named() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13, "vendor" : 1]>
        net (float[1,2] x) => (float[1,2] y) { y = vendor.Fancy (x) }"""
    )
    with pytest.raises(UnsupportedError, match=r"vendor\.Fancy"):
        lower(model)
    del model.opset_import[1:]
    with pytest.raises(UnsupportedError, match="vendor"):
        lower(model)


def test_the_operator_table_lists_what_the_files_define() -> None:
    for file, (lowerings, primitives) in FILES.items():
        module = import_module(f"falsifier.network.operators.{file}")
        assert set(getattr(module, "LOWERINGS", {})) == set(lowerings.split()), file
        assert set(getattr(module, "PRIMITIVES", {})) == set(primitives.split()), file
    for column, table in ((0, LOWERINGS), (1, PRIMITIVES)):
        assert len(table) == sum(len(columns[column].split()) for columns in FILES.values()), "an operator twice"


FOLDED: list[tuple[str, dict[str, Any], list[Array]]] = [
    ("Constant", {"value_ints": [1, 2]}, []),
    ("ConstantOfShape", {"value": np.array([2.5], dtype=np.float32)}, [np.array([2, 3])]),
    ("Shape", {"start": 1}, [np.zeros((2, 3, 4), np.float32)]),
    ("Gather", {"axis": 1}, [np.arange(6).reshape(2, 3), np.array([[-1, 0]])]),
    ("Unsqueeze", {}, [np.arange(3), np.array([0, -1])]),
    ("Squeeze", {}, [np.arange(3).reshape(1, 3, 1), np.array([-1])]),
    ("Squeeze", {}, [np.arange(3).reshape(1, 3, 1)]),
    ("Concat", {"axis": -1}, [np.arange(2), np.arange(3)]),
    ("Slice", {}, [np.arange(9), np.array([-2]), np.array([0]), np.array([0]), np.array([-3])]),
    ("Slice", {}, [np.arange(9), np.array([-100]), np.array([100])]),
    ("Reshape", {}, [np.arange(6).reshape(2, 3), np.array([0, -1, 1])]),
    ("Transpose", {}, [np.arange(6).reshape(2, 3)]),
    ("Cast", {"to": TensorProto.INT64}, [np.array([1.9, -1.9], np.float32)]),
    ("Cast", {"to": TensorProto.BOOL}, [np.array([0.0, 0.5], np.float32)]),
    ("Cast", {"to": TensorProto.FLOAT}, [np.array([3, -4])]),
    ("Range", {}, [np.array(5), np.array(-4), np.array(-2)]),
    ("Expand", {}, [np.arange(3).reshape(3, 1), np.array([2, 1, 4])]),
    ("Div", {}, [np.array([7, -7, 7]), np.array([2, 2, -2])]),
    ("Div", {}, [np.array([7.0, 1.0], np.float32), np.array([2.0, 0.0], np.float32)]),
    ("Where", {}, [np.array([True, False]), np.array([1, 2]), np.array([3, 4])]),
    ("Equal", {}, [np.array([1, 2]), np.array([1, 3])]),
    ("Size", {}, [np.zeros((2, 3), np.float32)]),
]


@pytest.mark.parametrize(("op", "attributes", "operands"), FOLDED, ids=lambda v: v if isinstance(v, str) else "")
def test_folding_in_numpy_is_folding_in_onnxruntime(op: str, attributes: dict[str, Any], operands: list[Array]) -> None:
    node = Node(op, "", 15, attributes, ("y",), "n")
    proto = helper.make_node(op, [f"i{i}" for i in range(len(operands))], ["y"])
    (mine,) = folding.fold(node, operands, proto)
    (expected,) = folding._run(node, operands, proto)
    assert mine.dtype == expected.dtype
    np.testing.assert_array_equal(mine, expected)


def test_folding_leaves_rare_operators_to_onnxruntime() -> None:
    node = Node("Erf", "", 13, {}, ("y",), "n")
    (y,) = folding.fold(node, [np.array([0.0, 1.0], np.float32)], helper.make_node("Erf", ["x"], ["y"]))
    np.testing.assert_allclose(y, [0, 0.8427008], rtol=1e-6)


def test_a_view_costs_a_primitive_only_where_the_stored_shape_differs() -> None:
    build = Builder()
    x = build.input("x", (6,), np.dtype(np.float32))
    shaped = build.shaped(x, (1, 2, 3))
    assert build.sample(shaped).stored == (1, 2, 3)
    assert build.sample(shaped).name == build.sample(shaped).name
    assert build.view(build.sample(shaped), (1, 2, 3)).name == build.sample(shaped).name
    assert len(build.program.primitives) == 1


def test_a_fork_leaves_its_origin_alone() -> None:
    build = Builder()
    x = build.input("x", (2,), np.dtype(np.float32))
    fork = build.fork()
    fork.emit("Relu", [x], (2,))
    assert not build.program.primitives
    assert build.fresh("a") == "a_1"
