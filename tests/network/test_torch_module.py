"""Programs as torch modules, and torch modules as models."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from onnx import parser

from falsifier.errors import InputError
from falsifier.network import load
from falsifier.network.from_torch import export, exported
from falsifier.network.lowering import lower
from falsifier.network.reference import Reference
from falsifier.network.torch_module import ProgramModule

TWO = """<ir_version: 8, opset_import: ["" : 13]>
net (float[1,3] u, int64[2] k) => (float[1,2] p, float[1,3] q) <float[3,2] w = {1, 2, -3, 4, 5, -6}> {
    q = Relu (u)
    m = MatMul (q, w)
    f = Cast <to = 1> (k)
    p = Add (m, f)
}
"""


def test_a_program_as_a_module_takes_and_gives_the_model_s_tensors() -> None:
    proto = parser.parse_model(TWO)
    module = ProgramModule(lower(proto))
    reference = Reference(proto.SerializeToString())
    rng = np.random.default_rng(0)
    u, k = rng.normal(size=(5, 1, 3)).astype(np.float32), rng.integers(-3, 4, size=(5, 2))
    p, q = module(torch.from_numpy(u), torch.from_numpy(k))
    assert (p.shape, q.shape) == ((5, 1, 2), (5, 1, 3))
    for lane in range(5):
        expected = reference.run([u[lane], k[lane]])
        np.testing.assert_allclose(p[lane].numpy(), expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(q[lane].numpy(), expected[1], rtol=1e-5)


def test_a_program_as_a_module_is_differentiable_and_movable() -> None:
    module = ProgramModule(lower(parser.parse_model(TWO)))
    assert not list(module.parameters())
    assert any(b.shape == (3, 2) for b in module.buffers())
    u = torch.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    k = torch.zeros(1, 2, dtype=torch.int64)
    module(u, k)[0].sum().backward()
    assert u.grad is not None
    assert u.grad.tolist() == [[[3.0, 1.0, -1.0]]]
    on_meta = module.to("meta")
    assert on_meta(u.detach().to("meta"), k.to("meta"))[0].shape == (1, 1, 2)


def test_a_traced_module_is_right_on_other_batches() -> None:
    module = ProgramModule(lower(parser.parse_model(TWO)))
    u, k = torch.randn(2, 1, 3), torch.ones(2, 2, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and what tools that bound networks still use
        traced: Any = torch.jit.trace(module, (u, k), check_trace=False)  # type: ignore[no-untyped-call]
    u, k = torch.randn(5, 1, 3), torch.zeros(5, 2, dtype=torch.int64)
    for a, b in zip(traced(u, k), module(u, k), strict=True):
        assert torch.equal(a, b)


class Classifier(torch.nn.Module):
    """A module whose evaluation differs from its training."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.drop(self.norm(self.linear(x))))


def test_a_torch_module_is_exported_as_it_evaluates() -> None:
    module = Classifier()
    assert module.training
    network = load(export(module, torch.zeros(1, 6)))
    assert module.training
    x = torch.randn(6)
    module.eval()
    np.testing.assert_allclose(
        network.reference.run_flat(x.numpy()), module(x[None])[0].detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_a_flat_shape_stands_for_one_sample() -> None:
    network = load(exported(Classifier(), [(6,)]))
    assert [i.shape for i in network.reference.inputs] == [(1, 6)]


def test_a_module_that_cannot_be_exported_is_an_input_error() -> None:
    module = Classifier()
    with pytest.raises(InputError, match="torch cannot export Classifier"):
        exported(module, [(7,)])
    assert module.training
