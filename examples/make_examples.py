"""Makes the bundled example: a small convolutional digit classifier and two robustness queries around held-out images.

    python examples/make_examples.py

Needs the extras `torch` and `test` (scikit-learn ships the images). Writes beside itself:

* digits.onnx: 1x8x8 grey images in [0, 1] -> 10 scores, trained on the first 1,500 of scikit-learn's 1,797 images;
* digits_violated.vnnlib: an l_inf ball around a held-out image that holds an image of another class (FGSM finds one);
* digits_robust.vnnlib: a ball in which none exists (interval arithmetic proves it).

`digits_violated.vnnlib` is satisfiable: a query states the violation that is searched for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent
TRAINED_ON = 1500
VIOLATED_RADIUS, ROBUST_RADIUS = 0.05, 0.01


def train(images: torch.Tensor, labels: torch.Tensor) -> torch.nn.Sequential:
    """A classifier of about 3,800 weights, trained for 30 epochs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.split(torch.randperm(len(images)), 64):
            loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model.eval()


def to_onnx(model: torch.nn.Sequential) -> onnx.ModelProto:
    """The same network as an ONNX model, built node by node so that the file depends on no exporter."""
    arrays = [p.detach().numpy() for p in model.parameters()]
    names = ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc.weight", "fc.bias"]
    nodes = [
        helper.make_node("Conv", ["image", *names[0:2]], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", *names[2:4]], ["c2"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Flatten", ["r2"], ["flat"]),
        helper.make_node("Gemm", ["flat", *names[4:6]], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(a, n) for a, n in zip(arrays, names, strict=True)],
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="falsifier"
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def fgsm_violates(model: torch.nn.Sequential, image: torch.Tensor, label: int, radius: float) -> bool:
    """Whether one signed gradient step towards some other class changes the class."""
    for other in (c for c in range(10) if c != label):
        x = image.clone().requires_grad_()
        scores = model(x[None])[0]
        (gradient,) = torch.autograd.grad(scores[other] - scores[label], x)
        moved = model((image + radius * gradient.sign()).clamp(0, 1)[None])[0]
        if moved[other] > moved[label] + 1e-3:
            return True
    return False


def intervals_prove(model: torch.nn.Sequential, image: torch.Tensor, label: int, radius: float) -> bool:
    """Whether interval arithmetic in float64 shows that the class cannot change within the radius."""
    centre, spread = image.double()[None], torch.full_like(image.double()[None], radius)
    for layer in model:
        if isinstance(layer, torch.nn.Conv2d):
            stride, padding = layer.stride[0], layer.padding[0]
            weight, bias = layer.weight.double(), layer.bias.double() if layer.bias is not None else None
            centre = torch.nn.functional.conv2d(centre, weight, bias, stride, int(padding))
            spread = torch.nn.functional.conv2d(spread, weight.abs(), None, stride, int(padding))
        elif isinstance(layer, torch.nn.ReLU):
            low, high = (centre - spread).relu(), (centre + spread).relu()
            centre, spread = (high + low) / 2, (high - low) / 2
        elif isinstance(layer, torch.nn.Flatten):
            centre, spread = centre.flatten(1), spread.flatten(1)
        elif isinstance(layer, torch.nn.Linear):
            rows = layer.weight.double() - layer.weight.double()[label]
            bias = layer.bias.double() - layer.bias.double()[label]
            worst = rows @ centre[0] + bias + rows.abs() @ spread[0]
            worst[label] = -torch.inf
            return bool(worst.max() < -1e-3)
    raise AssertionError("the network ends in a Linear layer")


def query(image: NDArray[np.float32], label: int, radius: float, index: int) -> str:
    """VNN-LIB 1.0: some image within the radius, clipped to [0, 1], on which another class scores at least as high."""
    low, high = np.clip(image - radius, 0, 1), np.clip(image + radius, 0, 1)
    lines = [f"; held-out digits image {index}, class {label}, l_inf radius {radius}"]
    lines += [f"(declare-const X_{i} Real)" for i in range(image.size)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(10)]
    for i, (a, b) in enumerate(zip(low.flat, high.flat, strict=True)):
        lines += [f"(assert (>= X_{i} {a:.6f}))", f"(assert (<= X_{i} {b:.6f}))"]
    clauses = "".join(f"\n    (and (>= Y_{c} Y_{label}))" for c in range(10) if c != label)
    return "\n".join([*lines, f"(assert (or{clauses}\n))", ""])


def main() -> None:
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32)[:, None]
    labels = torch.tensor(digits.target)
    model = train(images[:TRAINED_ON], labels[:TRAINED_ON])
    right = model(images).argmax(1) == labels
    print(f"accuracy on held-out images: {right[TRAINED_ON:].float().mean():.3f}")
    (HERE / "digits.onnx").write_bytes(to_onnx(model).SerializeToString())
    held_out = [i for i in range(TRAINED_ON, len(images)) if right[i]]
    violated = next(i for i in held_out if fgsm_violates(model, images[i], int(labels[i]), VIOLATED_RADIUS))
    robust = next(i for i in held_out if intervals_prove(model, images[i], int(labels[i]), ROBUST_RADIUS))
    for name, i, radius in (("violated", violated, VIOLATED_RADIUS), ("robust", robust, ROBUST_RADIUS)):
        (HERE / f"digits_{name}.vnnlib").write_text(query(images[i].numpy(), int(labels[i]), radius, i))
        print(f"digits_{name}.vnnlib: image {i}, class {int(labels[i])}, radius {radius}")
    (HERE / "instances.csv").write_text("digits.onnx,digits_violated.vnnlib,20\ndigits.onnx,digits_robust.vnnlib,20\n")


if __name__ == "__main__":
    main()
