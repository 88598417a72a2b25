"""The operator table: one small file per operator group, holding lowering, adjoint and torch closure side by side.

A file defines two dictionaries:

* `LOWERINGS: dict[str, Lowering]`, by ONNX operator type (`"Conv"`; other domains as `"com.microsoft.Name"`): the rule
  that emits primitives for one node of any opset from 7 to 23;
* `PRIMITIVES: dict[str, PrimitiveRule]`, by the primitive's operator type: its reverse-mode adjoint (more primitives)
  and its torch closure.

`FILES` lists what each file defines, so that only the files that a model needs are imported; a test compares the two.
An operator without a rule of its own is expanded into its ONNX function body, where the standard defines one.

Straight-through gradients: the adjoint of Sign, Round, Floor, Ceil and casts to integers is
`straight_through.pass_gradient(build, primitive, g)`, which reads the lanes' window widths from `build.window(dtype)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from falsifier.network.program import Builder, Operand, Primitive, Value


@dataclass(frozen=True)
class Node:
    """A node of the model, decoded.

    `attributes` are Python values: int, float, str (bytes where it is not UTF-8), list, numpy array, GraphProto.
    `outputs` are the names as the model writes them, '' for an optional output that is not wanted.
    """

    op: str
    domain: str
    version: int  # the opset that the model imports for the domain
    attributes: dict[str, Any]
    outputs: tuple[str, ...]
    name: str = ""

    @property
    def key(self) -> str:
        """The operator's name in `LOWERINGS`."""
        return f"{self.domain}.{self.op}" if self.domain not in ("", "ai.onnx") else self.op


Lowering = Callable[[Builder, Node, Sequence[Operand]], Sequence[Operand]]
"""(builder, node, operands) -> results, one per output of the node. At least one operand is a Value (all-constant nodes
are folded before). Trailing operands may be missing, omitted ones are None. A result may be a numpy array (Shape,
Size). Half precision never appears: constants and Values are float32 by then. Raises UnsupportedError with a one-line
reason."""

Gradients = Sequence[Value | None]
Adjoint = Callable[[Builder, Primitive, Gradients], Gradients]
"""(builder, primitive, gradient of each output, None where nothing flows) -> gradient of each input, None where none is
needed (constants, indices). A gradient has the stored shape and lead of the value it belongs to; summing over several
uses is the caller's work. At least one output has a gradient, and at least one input needs one;
`build.program.values.get(name)` is None for inputs that are constants."""


@dataclass(frozen=True)
class PrimitiveRule:
    """What the engines know of a primitive.

    `torch(inputs, attributes) -> outputs` gets torch tensors (None for an omitted input) and returns a tuple of them.
    `adjoint` None: the program has no gradient graph, torch's autograd may still serve.
    """

    torch: Callable[[Sequence[Any], dict[str, Any]], tuple[Any, ...]]
    adjoint: Adjoint | None = None


# file -> (the ONNX operators that it lowers, the primitives that it defines), separated by blanks
FILES: dict[str, tuple[str, str]] = {
    "pointwise": (
        "Relu LeakyRelu Add Sub Mul Div Neg Identity Dropout",
        "Relu LeakyRelu Add Sub Mul Div Neg Identity",
    ),
    "linear": ("MatMul Gemm", "MatMul Gemm"),
    "convolution": ("Conv ConvTranspose", "Conv ConvTranspose"),
    "shape": (
        "Reshape Flatten Squeeze Unsqueeze Transpose Expand Tile Shape Size",
        "Reshape Transpose Expand Tile Shape ReduceSum",
    ),
    "slicing": ("Concat Slice Split Gather", "Concat Slice Split Gather"),
    "padding": ("Pad CenterCropPad DepthToSpace SpaceToDepth Trilu", "Pad"),
    "max_pooling": ("MaxPool", "MaxPool"),
    "pooling": ("AveragePool LpPool GlobalMaxPool GlobalAveragePool GlobalLpPool MaxUnpool", ""),
    "indexing": (
        "GatherElements GatherND Scatter ScatterElements ScatterND Compress OneHot EyeLike ReverseSequence",
        "",
    ),
    "scattering": ("", "GatherElements GatherND ScatterElements"),
    "resizing": ("Resize Upsample", "Resize"),
    "einsum": ("Einsum", "Einsum"),
    "sampling": ("AffineGrid GridSample Col2Im", "GridSample"),
    "spectral": ("DFT STFT", ""),
    "contributed": (
        "com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.Gelu com.microsoft.QuickGelu "
        "com.microsoft.FusedMatMul com.microsoft.FusedConv com.microsoft.FusedGemm "
        "com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization "
        "com.microsoft.QuantizeLinear com.microsoft.DequantizeLinear com.microsoft.QLinearAdd "
        "com.microsoft.QLinearMul com.microsoft.QLinearSigmoid com.microsoft.QLinearLeakyRelu "
        "com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearConcat "
        "com.microsoft.QLinearAveragePool com.microsoft.QLinearSoftmax com.microsoft.QGemm "
        "com.microsoft.MatMulIntegerToFloat com.microsoft.DynamicQuantizeMatMul com.microsoft.Pad "
        "com.microsoft.ExpandDims com.microsoft.GridSample com.microsoft.Trilu SimplifiedLayerNormalization",
        "",
    ),
    "attention": ("com.microsoft.Attention com.microsoft.MultiHeadAttention com.microsoft.QAttention", ""),
    "classical": (
        "ai.onnx.ml.Scaler ai.onnx.ml.Binarizer ai.onnx.ml.Normalizer ai.onnx.ml.LinearRegressor "
        "ai.onnx.ml.LinearClassifier ai.onnx.ml.ArrayFeatureExtractor",
        "",
    ),
    "refused": (
        "NonZero NonMaxSuppression Unique ConstantOfShape Range Bernoulli Multinomial RandomNormalLike "
        "RandomUniformLike SequenceMap ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit "
        "TfIdfVectorizer",
        "",
    ),
    "sequences": (
        "Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SplitToSequence ConcatFromSequence",
        "",
    ),
    "recurrent": ("RNN GRU LSTM", ""),
    "quantization": (
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearMatMul ConvInteger QLinearConv",
        "QuantizeLinear DequantizeLinear",
    ),
    "ordering": ("ArgMax ArgMin TopK CumSum", "ArgMax ArgMin TopK CumSum"),
    "activations": ("Celu Gelu HardSigmoid HardSwish Mish PRelu Selu Shrink Softplus Swish ThresholdedRelu", ""),
    "arithmetic": ("Clip Max Mean Min Mod Pow Sum", "Clip Max Min Mod Pow"),
    "casting": ("Cast CastLike", "Cast"),
    "deformable": ("DeformConv", ""),
    "determinant": ("Det", "Det"),
    "elementary": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Log Reciprocal Sigmoid Sin Sinh Softsign "
        "Sqrt Tan Tanh",
        "Abs Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Log Reciprocal Sigmoid Sin Sinh Softsign "
        "Sqrt Tan Tanh",
    ),
    "layer_normalization": ("LayerNormalization RMSNormalization", "LayerNormalization"),
    "logical": (
        "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor "
        "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor",
        "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor "
        "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor",
    ),
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LpNormalization MeanVarianceNormalization",
        "",
    ),
    "reduction": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd",
    ),
    "rounding": ("Ceil Floor Round Sign", "Ceil Floor Round Sign"),
    "softmax": ("Hardmax LogSoftmax Softmax", "Hardmax LogSoftmax Softmax"),
}


class _Table(Mapping[str, Any]):
    """Operator name -> rule, importing the file that defines the rule when it is first asked for."""

    def __init__(self, column: int, attribute: str) -> None:
        self._attribute = attribute
        self._files = {op: file for file, columns in FILES.items() for op in columns[column].split()}

    def __getitem__(self, op: str) -> Any:
        module = import_module(f"{__name__}.{self._files[op]}")
        return getattr(module, self._attribute)[op]

    def __contains__(self, op: object) -> bool:
        return op in self._files

    def __iter__(self) -> Any:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


LOWERINGS: Mapping[str, Lowering] = _Table(0, "LOWERINGS")
PRIMITIVES: Mapping[str, PrimitiveRule] = _Table(1, "PRIMITIVES")
