"""Networks of the sizes that users bring, with random weights (He), and queries about them: what `large.py` measures.

Only shapes and sizes count here: a network with random weights costs what a trained one costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
Floats = NDArray[np.float32]


@dataclass
class Net:
    """Builds a graph name by name; `shape` knows the shapes of tensors (one sample, with its leading 1)."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    shape: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def const(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape: int, fan: int) -> str:
        return self.const(self.rng.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2 / fan)))

    def __call__(self, op: str, *inputs: str, shape: tuple[int, ...] | None = None, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        self.shape[name] = self.shape[inputs[0]] if shape is None else shape
        return name

    def conv(self, x: str, out: int, kernel: int = 3, stride: int = 1) -> str:
        _, c, h, w = self.shape[x]
        pad = kernel // 2
        weight = self.weights(out, c, kernel, kernel, fan=c * kernel**2)
        after = (1, out, (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1)
        zeros = self.const(np.zeros(out, np.float32))
        return self(
            "Conv", x, weight, zeros, shape=after, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def norm(self, x: str) -> str:
        c = self.shape[x][1]
        ones, zeros = np.ones(c, np.float32), np.zeros(c, np.float32)
        return self("BatchNormalization", x, *(self.const(a) for a in (ones, zeros, zeros, ones)))

    def relu(self, x: str) -> str:
        return self("Relu", x)

    def pool(self, x: str) -> str:
        n, c, h, w = self.shape[x]
        return self("MaxPool", x, shape=(n, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])

    def flat(self, x: str) -> str:
        return self("Flatten", x, shape=(1, math.prod(self.shape[x])))

    def dense(self, x: str, out: int) -> str:
        """A Gemm for `[1, k]`, a MatMul with a bias for `[1, tokens, k]`."""
        *lead, k = self.shape[x]
        bias = self.const(np.zeros(out, np.float32))
        if len(lead) == 1:
            return self("Gemm", x, self.weights(out, k, fan=k), bias, shape=(1, out), transB=1)
        product = self("MatMul", x, self.weights(k, out, fan=2 * k), shape=(*lead, out))
        return self("Add", product, bias)

    def reshape(self, x: str, *shape: int) -> str:
        return self("Reshape", x, self.const(np.array(shape)), shape=shape)

    def transpose(self, x: str, *order: int) -> str:
        return self("Transpose", x, shape=tuple(self.shape[x][i] for i in order), perm=list(order))

    def model(self, shape: tuple[int, ...], y: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, self.shape[y])]
        graph = helper.make_graph(self.nodes, "large", inputs, outputs, self.constants)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])


def _vgg(net: Net, x: str) -> str:
    """VGG-16: 138 million weights, 15 billion multiplications."""
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            x = net.relu(net.conv(x, width))
        x = net.pool(x)
    x = net.flat(x)
    for _ in range(2):
        x = net.relu(net.dense(x, 4096))
    return net.dense(x, 1000)


def _resnet(blocks: tuple[int, ...], bottleneck: bool, classes: int) -> Callable[[Net, str], str]:
    def body(net: Net, x: str) -> str:
        large = net.shape[x][-1] >= 128
        x = net.relu(net.norm(net.conv(x, 64, 7 if large else 3, 2 if large else 1)))
        x = net.pool(x) if large else x
        for at, count in enumerate(blocks):
            width = 64 << at
            out = 4 * width if bottleneck else width
            for block in range(count):
                stride = 2 if at and not block else 1
                skip = x if net.shape[x][1] == out and stride == 1 else net.norm(net.conv(x, out, 1, stride))
                if bottleneck:
                    y = net.relu(net.norm(net.conv(x, width, 1)))
                    y = net.relu(net.norm(net.conv(y, width, 3, stride)))
                    y = net.norm(net.conv(y, out, 1))
                else:
                    y = net.relu(net.norm(net.conv(x, out, 3, stride)))
                    y = net.norm(net.conv(y, out, 3))
                half = net.const(np.float32(math.sqrt(0.5)))
                x = net.relu(net("Mul", net("Add", y, skip), half))
        x = net("GlobalAveragePool", x, shape=(1, net.shape[x][1], 1, 1))
        return net.dense(net.flat(x), classes)

    return body


def _yolo(net: Net, x: str) -> str:
    """A tiny YOLO: leaky convolutions, a grid of boxes as the output."""
    for width in (16, 32, 64, 128, 256):
        x = net.pool(net("LeakyRelu", net.norm(net.conv(x, width)), alpha=0.1))
    for width in (512, 1024, 1024):
        x = net("LeakyRelu", net.norm(net.conv(x, width)), alpha=0.1)
    return net.flat(net.conv(x, 125, 1))


def _unet(net: Net, x: str) -> str:
    """Down three times and up again; an output for every pixel and class."""
    kept = []
    for width in (32, 64, 128):
        x = net.relu(net.conv(net.relu(net.conv(x, width)), width))
        kept.append(x)
        x = net.pool(x)
    x = net.relu(net.conv(x, 256))
    for width in (128, 64, 32):
        n, c, h, w = net.shape[x]
        kernel = net.weights(c, width, 2, 2, fan=c)
        x = net("ConvTranspose", x, kernel, shape=(n, width, 2 * h, 2 * w), kernel_shape=[2, 2], strides=[2, 2])
        x = net("Concat", x, kept.pop(), shape=(n, 2 * width, 2 * h, 2 * w), axis=1)
        x = net.relu(net.conv(x, width))
    return net.conv(x, 3, 1)


def _dist_shift(net: Net, x: str) -> str:
    """A generator of images and a classifier of them; a sigmoid between the two."""
    for _ in range(3):
        x = net.relu(net.dense(x, 2048))
    x = net("Sigmoid", net.dense(x, 784))
    for _ in range(2):
        x = net.relu(net.dense(x, 2048))
    return net.dense(x, 10)


def _rul(net: Net, x: str) -> str:
    """Remaining useful life: convolutions along time, one number as the output."""
    for _ in range(4):
        x = net.relu(net.conv(x, 64))
    return net.dense(net.relu(net.dense(net.flat(x), 1024)), 1)


def _transformer(tokens: int, size: int, blocks: int) -> Callable[[Net, str], str]:
    def normalised(net: Net, x: str) -> str:
        ones, zeros = (net.const(np.full(size, v, np.float32)) for v in (1.0, 0.0))
        return net("LayerNormalization", x, ones, zeros, axis=-1)

    def body(net: Net, x: str) -> str:
        heads, width = size // 64, 64
        x = net.dense(x, size)
        for _ in range(blocks):
            z = normalised(net, x)
            q, k, v = (
                net.transpose(net.reshape(net.dense(z, size), 1, tokens, heads, width), 0, 2, 1, 3) for _ in "qkv"
            )
            scores = net("MatMul", q, net.transpose(k, 0, 1, 3, 2), shape=(1, heads, tokens, tokens))
            shares = net("Softmax", net("Mul", scores, net.const(np.float32(width**-0.5))), axis=-1)
            z = net.transpose(net("MatMul", shares, v, shape=(1, heads, tokens, width)), 0, 2, 1, 3)
            x = net("Add", x, net.dense(net.reshape(z, 1, tokens, size), size))
            z = net.dense(normalised(net, x), 4 * size)
            z = net("Mul", z, net("Sigmoid", net("Mul", z, net.const(np.float32(1.702)))))
            x = net("Add", x, net.dense(z, size))
        return net.dense(net.reshape(normalised(net, x), 1, tokens * size), 10)

    return body


def _mlp(*widths: int) -> Callable[[Net, str], str]:
    def body(net: Net, x: str) -> str:
        for width in widths[:-1]:
            x = net.relu(net.dense(x, width))
        return net.dense(x, widths[-1])

    return body


@dataclass(frozen=True)
class Large:
    """A network: how it is built, the shape of its input, and whether its weights lie beside it."""

    body: Callable[[Net, str], str]
    shape: tuple[int, ...]
    beside: bool = False


NETWORKS = {
    "vgg16": Large(_vgg, (1, 3, 224, 224)),
    "resnet18": Large(_resnet((2, 2, 2, 2), False, 200), (1, 3, 64, 64)),
    "resnet18-beside": Large(_resnet((2, 2, 2, 2), False, 200), (1, 3, 64, 64), beside=True),
    "resnet50": Large(_resnet((3, 4, 6, 3), True, 1000), (1, 3, 224, 224)),
    "yolo": Large(_yolo, (1, 3, 128, 128)),
    "unet": Large(_unet, (1, 3, 192, 192)),
    "dist-shift": Large(_dist_shift, (1, 8)),
    "rul": Large(_rul, (1, 1, 40, 20)),
    "transformer-small": Large(_transformer(16, 384, 6), (1, 16, 48)),
    "transformer": Large(_transformer(64, 768, 12), (1, 64, 48)),
    "mlp-wide": Large(_mlp(10000, 10000, 10), (1, 784)),
    "nn4sys": Large(_mlp(256, 256, 256, 1), (1, 24)),
}


def write_network(name: str, folder: Path) -> Path:
    """The network as a file in a folder; one that is there already is taken as it is."""
    large = NETWORKS[name]
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    net = Net(np.random.default_rng(0), shape={"X": large.shape})
    model = net.model(large.shape, large.body(net, "X"))
    part = path.with_suffix(".part")
    if large.beside:
        onnx.save(model, part, save_as_external_data=True, location=f"{name}.weights")
    else:
        part.write_bytes(model.SerializeToString())
    part.rename(path)
    return path


KINDS = ("easy", "gradient", "hard", "few", "v2", "boxes")
"""Queries: met at the centre; met along the gradient; met nowhere near; with 12 inputs free; hard, in VNN-LIB 2.0; and
10^5 disjuncts with a box each."""


def write_query(kind: str, path: Path, n: int, shape: tuple[int, ...], outputs: Floats, centre: Floats) -> Path:
    """A query about a network whose outputs `[m]` at the centre `[n]` of its boxes are known."""
    m = outputs.size
    order = np.argsort(-outputs)
    label, rival = int(order[0]), int(order[min(1, m - 1)])
    radius = np.full(n, {"easy": 0.05, "gradient": 0.1}.get(kind, 1e-4))
    if kind == "few":
        radius = np.where(np.arange(n) % max(1, n // 12) == 0, 0.5, 0.0)
    lower, upper = centre - radius, centre + radius
    if m == 1:
        atoms = [f"<= {{y{label}}} {outputs[label] + (1.0 if kind == 'easy' else -0.5 * abs(outputs[label])):.6f}"]
    elif kind == "easy":
        atoms = [f">= {{y{label}}} {{y{rival}}}"]
    else:
        atoms = [f">= {{y{j}}} {{y{label}}}" for j in order[1:1000].tolist()]
    path.write_text("\n".join(_lines(kind, shape, m, lower, upper, atoms)) + "\n")
    return path


def _lines(kind: str, shape: tuple[int, ...], m: int, lower: Floats, upper: Floats, atoms: list[str]) -> Iterator[str]:
    n, new = lower.size, kind == "v2"
    x = [f"X[{','.join(map(str, at))}]" for at in np.ndindex(shape)] if new else [f"X_{i}" for i in range(n)]
    y = {f"y{j}": f"Y[0,{j}]" if new else f"Y_{j}" for j in range(m)}
    if new:
        dims = ",".join(map(str, shape))
        yield "(vnnlib-version <2.0>)"
        yield f"(declare-network f (declare-input X real [{dims}]) (declare-output Y real [1,{m}]))"
    else:
        yield from (f"(declare-const {name} Real)" for name in (*x, *y.values()))
    if kind == "boxes":
        yield "(assert (or"
        for at in np.linspace(0, 1, 100_000).tolist():
            ends = " ".join(f"(>= {name} {at + i:.6f}) (<= {name} {at + i + 1e-4:.6f})" for i, name in enumerate(x[:4]))
            yield f"  (and {ends} ({atoms[0]}))".format(**y)
        yield "))"
        x, lower, upper = x[4:], lower[4:], upper[4:]
    for name, a, b in zip(x, lower.tolist(), upper.tolist(), strict=True):
        yield f"(assert (>= {name} {a:.8f}))"
        yield f"(assert (<= {name} {b:.8f}))"
    if kind != "boxes":
        rows = [f"({atom})".format(**y) for atom in atoms]
        yield (
            f"(assert (or {' '.join(f'(and {row})' if not new else row for row in rows)}))"
            if len(rows) > 1
            else (f"(assert {rows[0]})")
        )
