"""Small networks in ONNX text that lowering must get right, among them those that hide the batch axis.

`AFFINE` are affine functions of their input, so that their adjoint can be judged exactly, and `KINKED` are so around
points away from 0; `SMOOTH` are not, and are in float64 for the sake of differences.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper, numpy_helper, parser


def read(body: str, opset: int = 13, ir_version: int = 8) -> ModelProto:
    """A model from the text of its graph."""
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{body}')


AFFINE: dict[str, ModelProto] = {
    "reshape to a fixed leading one": read(
        """net (float[1,2,1,1] x) => (float[1,1] y) <int64[2] s = {1,-1}, float[1,2] w = {1.0,-1.0}> {
        r = Reshape (x, s)
        y = Gemm <transB = 1> (r, w)
        }"""
    ),
    "flatten at axis 0": read(
        """net (float[1,2,1,1] x) => (float[1,1] y) <float[2,1] w = {1.0,-1.0}> {
        r = Flatten <axis = 0> (x)
        y = MatMul (r, w)
        }"""
    ),
    "mean over the batch axis": read(
        """net (float[1,2] x) => (float[1,1] y) <float[1,2] w = {1.0,-1.0}> {
        r = ReduceMean <axes = [0], keepdims = 1> (x)
        y = Gemm <transB = 1> (r, w)
        }"""
    ),
    "reshape with zeros": read(
        """net (float[2,3,4] x) => (float[2,12] y) <int64[2] s = {0,-1}> { y = Reshape (x, s) }"""
    ),
    "reshape target computed from the shape": read(
        """net (float[1,6,2] x) => (float[1,12] y) <int64[1] at = {0}, int64[1] rest = {-1}> {
        s = Shape (x)
        b = Gather <axis = 0> (s, at)
        t = Concat <axis = 0> (b, rest)
        y = Reshape (x, t)
        }"""
    ),
    "squeeze, unsqueeze, transpose": read(
        """net (float[1,2,3] x) => (float[3,1,2] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        a = Squeeze (x, zero)
        b = Transpose <perm = [1,0]> (a)
        y = Unsqueeze (b, one)
        }"""
    ),
    "transpose of four axes": read(
        """net (float[1,2,3,4] x) => (float[4,1,3,2] y) { y = Transpose <perm = [3,0,2,1]> (x) }"""
    ),
    "concat with a constant": read(
        """net (float[1,2,2] x) => (float[1,5,2] y) <float[1,1,2] c = {7.0,8.0}> {
        y = Concat <axis = 1> (x, c, x)
        }"""
    ),
    "concat over the batch axis": read("""net (float[1,3] x) => (float[2,3] y) { y = Concat <axis = 0> (x, x) }"""),
    "slices with steps, forwards and backwards": read(
        """net (float[1,7,5] x) => (float[1,3,2] y)
        <int64[2] s = {1,-1}, int64[2] e = {100,-5}, int64[2] a = {1,2}, int64[2] d = {2,-2}> {
        y = Slice (x, s, e, a, d)
        }"""
    ),
    "slice that reverses": read(
        """net (float[1,4] x) => (float[1,4] y)
        <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {1}, int64[1] d = {-1}> {
        y = Slice (x, s, e, a, d)
        }"""
    ),
    "slice by attributes": read(
        """net (float[1,4,4] x) => (float[1,2,4] y) { y = Slice <starts = [1], ends = [-1], axes = [1]> (x) }""", 9
    ),
    "split in equal parts, one unused": read(
        """net (float[1,6] x) => (float[1,2] y) {
        a, b, c = Split <axis = 1> (x)
        y = Sub (c, a)
        }"""
    ),
    "split in given parts": read(
        """net (float[1,6] x) => (float[1,4] y, float[1,2] z) <int64[2] n = {4,2}> { y, z = Split <axis = 1> (x, n) }"""
    ),
    "gather of one": read(
        """net (float[1,4,3] x) => (float[1,3] y) <int64 i = {-2}> { y = Gather <axis = 1> (x, i) }"""
    ),
    "gather of some, one twice": read(
        """net (float[1,5,2] x) => (float[1,4,2] y) <int64[4] i = {3,0,3,-1}> { y = Gather <axis = 1> (x, i) }"""
    ),
    "gather of one many times": read(
        """net (float[1,3,2] x) => (float[1,2,4,2] y) <int64[2,4] i = {0,0,0,0,2,0,0,1}> {
        y = Gather <axis = 1> (x, i)
        }"""
    ),
    "expand": read("""net (float[1,2,1] x) => (float[3,2,4] y) <int64[3] s = {3,1,4}> { y = Expand (x, s) }"""),
    "tile": read("""net (float[1,2,3] x) => (float[2,2,6] y) <int64[3] r = {2,1,2}> { y = Tile (x, r) }"""),
    "broadcast of two values": read(
        """net (float[1,3] x) => (float[3,3] y) {
        t = Transpose <perm = [1,0]> (x)
        y = Sub (t, x)
        }"""
    ),
    "broadcast of constants of every rank": read(
        """net (float[2,2] x) => (float[3,2,2] y)
        <float[2] a = {1.0,2.0}, float[3,1,1] b = {1.0,2.0,3.0}, float c = {5.0}, float[2,1] d = {2.0,4.0}> {
        p = Add (x, a)
        q = Mul (p, d)
        r = Sub (b, q)
        s = Div (r, c)
        y = Neg (s)
        }"""
    ),
    "matrix on the left": read(
        """net (float[1,3,2] x) => (float[1,2,2] y) <float[2,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}> { y = MatMul (w, x) }"""
    ),
    "matrix times vector": read(
        """net (float[3] x) => (float[2] y) <float[2,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}> { y = MatMul (w, x) }"""
    ),
    "vector on the right": read(
        """net (float[1,2,3] x) => (float[1,2] y) <float[3] w = {1.0,-2.0,3.0}> { y = MatMul (x, w) }"""
    ),
    "stack of matrices": read(
        """net (float[1,1,3] x) => (float[2,1,2] y)
        <float[2,3,2] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0}> { y = MatMul (x, w) }"""
    ),
    "rows of a sequence": read(
        """net (float[1,4,3] x) => (float[1,4,2] y)
        <float[3,2] w = {1.0,2.0,3.0,4.0,5.0,6.0}, float[2] b = {0.5,-0.5}> {
        m = MatMul (x, w)
        y = Add (b, m)
        }"""
    ),
    "gemm with every option": read(
        """net (float[3,2] x) => (float[2,4] y)
        <float[4,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,2.0,3.0}, float[2,1] c = {3.0,4.0}> {
        y = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (x, w, c)
        }"""
    ),
    "gemm with data on the right and as the sum": read(
        """net (float[2,2] x) => (float[3,2] y) <float[3,2] w = {1.0,2.0,3.0,4.0,5.0,6.0}, int64[2] s = {1,4}> {
        r = Reshape (x, s)
        z, o = Split <axis = 1> (r)
        y = Gemm <alpha = 2.0, beta = 0.5> (w, x, z)
        }"""
    ),
    "gemm whose sum is a column as long as a row": read(
        """net (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1.0,2.0,3.0,4.0}, float[2,1] c = {5.0,6.0}> {
        y = Gemm (x, w, c)
        }"""
    ),
    "convolution with uneven padding": read(
        """net (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,2,2] w = {1.0,2.0,3.0,4.0}> {
        y = Conv <pads = [0,0,1,1]> (x, w)
        }"""
    ),
    "convolution padded to the same size": read(
        """net (float[1,1,3,4] x) => (float[1,1,2,2] y) <float[1,1,2,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}> {
        y = Conv <auto_pad = "SAME_LOWER", strides = [2,2]> (x, w)
        }"""
    ),
    "convolution in groups, strided and dilated": read(
        """net (float[1,4,7,6] x) => (float[1,2,3,2] y)
        <float[2,2,2,2] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,-1.0,-2.0,-3.0,-4.0,-5.0,-6.0,-7.0,-8.0},
         float[2] b = {1.0,-1.0}> {
        y = Conv <group = 2, strides = [2,2], dilations = [2,3], pads = [0,1,1,0]> (x, w, b)
        }"""
    ),
    "convolution that skips the end": read(
        """net (float[1,1,8] x) => (float[1,1,2] y) <float[1,1,2] w = {1.0,-2.0}> { y = Conv <strides = [5]> (x, w) }"""
    ),
    "convolution in one dimension": read(
        """net (float[2,1,5] x) => (float[2,2,5] y) <float[2,1,3] w = {1.0,2.0,3.0,4.0,5.0,6.0}> {
        y = Conv <pads = [1,1]> (x, w)
        }"""
    ),
    "convolution in three dimensions": read(
        """net (float[1,1,2,3,3] x) => (float[1,1,1,2,2] y)
        <float[1,1,2,2,2] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0}> { y = Conv (x, w) }"""
    ),
    "transposed convolution": read(
        """net (float[1,2,3,3] x) => (float[1,2,7,8] y)
        <float[2,1,3,3] w = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,1.0,0.0,1.0,0.0,1.0,0.0,1.0,0.0,1.0},
         float[2] b = {1.0,2.0}> {
        y = ConvTranspose <strides = [2,2], group = 2, pads = [0,0,1,0], output_padding = [1,1]> (x, w, b)
        }"""
    ),
    "transposed convolution of a given size": read(
        """net (float[1,1,3] x) => (float[1,1,6] y) <float[1,1,3] w = {1.0,2.0,3.0}> {
        y = ConvTranspose <strides = [2], output_shape = [6]> (x, w)
        }"""
    ),
    "initializers among the inputs": read(
        """net (float[1,2] x, float[2,2] w) => (float[1,2] y) <float[2,2] w = {1.0,2.0,3.0,4.0}> {
        y = MatMul (x, w)
        }""",
        8,
        3,
    ),
    "two inputs, two outputs": read(
        """net (float[1,2] u, float[2] v) => (float[1,2] p, float[1,4] q) {
        p = Add (u, v)
        w = Neg (v)
        r = Add (u, w)
        q = Concat <axis = 1> (r, u)
        }"""
    ),
    "the input itself": read("""net (float[1,3] x) => (float[1,3] y) { y = Identity (x) }"""),
    "a constant beside it": read(
        """net (float[1,3] x) => (float[1,3] y, float[2] c) {
        y = Neg (x)
        c = Constant <value = float[2] {1.0,2.0}> ()
        }"""
    ),
}


def lattice(gemm: bool) -> ModelProto:
    """Two sparse products, as in lattices of minima: a selection with signs, then sums of two; 600 -> 900 -> 300."""
    rng = np.random.default_rng(5)
    first, second = np.zeros((600, 900), np.float32), np.zeros((900, 300), np.float32)
    first[rng.integers(0, 600, 900), np.arange(900)] = rng.choice([1.0, -1.0, 2.5], 900)
    for _ in range(2):
        second[rng.permutation(900)[:300], np.arange(300)] = -1
    model = read("net (float[1,600] x) => (float[1,300] y) { y = Neg (x) }")
    del model.graph.node[:]
    if gemm:
        second = np.ascontiguousarray(second.T)
        last = helper.make_node("Gemm", ["h", "b", "c"], ["y"], transB=1, alpha=0.5, beta=2.0)
    else:
        last = helper.make_node("MatMul", ["h", "b"], ["y"])
    model.graph.node.extend([helper.make_node("MatMul", ["x", "a"], ["h"]), last])
    arrays = {"a": first, "b": second, "c": rng.normal(size=300).astype(np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in arrays.items())
    return model


AFFINE["sparse products"] = lattice(gemm=False)
AFFINE["sparse products with a sum"] = lattice(gemm=True)

SMOOTH: dict[str, ModelProto] = {
    "softmax over the leading axis": read(
        """net (double[1,2] x) => (double[1,1] y)
        <int64[2] s = {-1,1}, int64[2] t = {-1,2}, double[1,2] w = {1.0,-1.0}> {
        a = Reshape (x, s)
        b = Softmax <axis = 0> (a)
        c = Reshape (b, t)
        y = Gemm <transB = 1> (c, w)
        }"""
    ),
    "products and quotients": read(
        """net (double[2,2] x) => (double[2,2] y) <double[2] a = {3.0,4.0}> {
        b = Mul (x, x)
        c = Add (b, a)
        t = Transpose <perm = [1,0]> (x)
        d = Div (t, c)
        e = Div (a, c)
        f = Sub (d, e)
        y = Mul (f, x)
        }"""
    ),
    "attention": read(
        """net (double[1,3,2] x) => (double[1,3,2] y) <double[2,2] q = {1.0,0.5,-0.5,1.0}> {
        a = MatMul (x, q)
        k = Transpose <perm = [0,2,1]> (x)
        s = MatMul (a, k)
        p = Softmax <axis = -1> (s)
        y = MatMul (p, x)
        }"""
    ),
    "a stack times one matrix of data": read(
        """net (double[2,2] x) => (double[3,2,2] y) <double[3,1,1] c = {1.0,2.0,3.0}> {
        a = Mul (x, c)
        y = MatMul (a, x)
        }"""
    ),
    "relu": read("""net (double[1,4] x) => (double[1,4] y) { y = Relu (x) }"""),
}

KINKED: dict[str, ModelProto] = {
    "relu and leaky relu": read(
        """net (float[1,4] x) => (float[1,8] y) {
        a = Relu (x)
        b = LeakyRelu <alpha = 0.1> (x)
        y = Concat <axis = 1> (a, b)
        }"""
    ),
}
