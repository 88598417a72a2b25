"""A network under auto_LiRPA: upper bounds of rows over boxes, in float64, and values and slopes at points.

Axes: b box, n flat input, k atom, m output with the inputs that rows mention.
"""

from __future__ import annotations

import math
import time
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import Lowered
from falsifier.network.torch_plan import is_out_of_memory
from falsifier_adapters.lirpa_library import Library, in_double

Floats = NDArray[np.float64]

_STRAIGHT = frozenset(
    """
    Add AveragePool BatchNormalization Concat Conv ConvTranspose Flatten Gather Gemm GlobalAveragePool Identity MatMul
    Neg ReduceMean ReduceSum Reshape Slice Split Squeeze Sub Sum Transpose Unsqueeze
    """.split()  # noqa: SIM905
)
_BENT = frozenset(
    """
    Abs Clip Cos Div Exp LeakyRelu Max MaxPool Min Mul Relu Sigmoid Sign Sin Softmax Sqrt Tanh
    """.split()  # noqa: SIM905
)
"""Primitives whose relaxations the library has. Others it may take as well, such as Cast, and bound wrongly."""
_OPTIMISED = frozenset({"Relu", "Sigmoid", "Tanh"})
"""Those whose optimised bounds were seen to hold; a LeakyRelu's are optimised over slopes that do not bound it."""
_SHARE = 0.5  # of the memory that is free which one call may be expected to take
_TRIED = 3  # points at which the traced network has to be the network
_TIMED = 5  # forward runs, of which the fastest counts
_FORWARDS = 0.5  # a row of a backward pass of the bounds, in forward passes of one lane among many


class Method(Enum):
    """Ways to bound, the value is the library's name; each dearer and mostly tighter than the one before."""

    IBP = "IBP"
    CROWN_IBP = "CROWN-IBP"
    CROWN = "CROWN"
    ALPHA = "CROWN-Optimized"


class BoundedNetwork:
    """The network of a lowered program. Rows see the outputs, then the inputs `columns`."""

    def __init__(self, lowered: Lowered, columns: NDArray[np.int64], library: Library) -> None:
        """Raises UnsupportedError for what the library does not bound."""
        import torch

        from falsifier.network.torch_module import FlatModule

        _demand_known(lowered)
        self._torch, self._library = torch, library
        self.n, self.width = lowered.n, lowered.m + len(columns)
        self._module = FlatModule(lowered, columns.tolist())
        has_convolution = any(p.op.startswith("Conv") for p in lowered.program.primitives)
        options = {"conv_mode": "patches" if has_convolution else "matrix", "optimize_bound_args": {"iteration": 20}}
        example = torch.zeros(2, lowered.n, dtype=torch.float64)
        with in_double():
            try:
                self._bounded = library.bounded_module(self._module, example, bound_opts=options)
            except (NotImplementedError, RuntimeError, AssertionError, KeyError, TypeError, ValueError) as error:
                raise UnsupportedError(f"auto_LiRPA cannot trace this network: {_line(error)}") from error
        self._bent = _bent_sizes(lowered)
        bent = {p.op for p in lowered.program.primitives} & _BENT
        self.optimised = bool(bent) and bent <= _OPTIMISED  # whether optimised bounds can be had, and believed
        self._forward_seconds = self._timed_forward()
        self.seconds: dict[Method, float] = {}  # of one box, measured
        self.last_call = (0.0, 0)  # seconds and boxes of the last one

    def check(self, points: Floats) -> None:
        """Raise UnsupportedError where the traced network is not the network, alone or in a batch."""
        for part in (points[:1], points[:_TRIED]):
            with in_double(), self._torch.no_grad():
                traced = self._bounded(self._torch.from_numpy(np.ascontiguousarray(part))).numpy()
            expected = self.values(part)
            scale = 1e-9 * (1 + np.abs(expected).max())
            if traced.shape != expected.shape or not np.all(np.abs(traced - expected) <= scale):
                raise UnsupportedError("auto_LiRPA's copy of this network computes something else")

    def upper(self, lower: Floats, upper: Floats, rows: Floats, method: Method) -> Floats:
        """Upper bounds `[b, k]` of rows `[b, k, m]` over boxes `[b, n]`. What is no number comes back as infinity.

        Raises UnsupportedError where the library fails, MemoryError.
        """
        torch = self._torch
        low, high, c = (torch.from_numpy(np.ascontiguousarray(a)) for a in (lower, upper, rows))
        start = time.perf_counter()
        with in_double(), torch.set_grad_enabled(method is Method.ALPHA):
            box = self._library.perturbation(norm=np.inf, x_L=low, x_U=high)
            x = self._library.bounded_tensor((low + high) / 2, box)
            try:
                found = self._bounded.compute_bounds(x=(x,), C=c, method=method.value, bound_lower=False)[1]
            except MemoryError:
                raise
            except Exception as error:
                if is_out_of_memory(error):
                    raise MemoryError(_line(error)) from error
                raise UnsupportedError(f"auto_LiRPA's {method.value} fails on this network: {_line(error)}") from error
        bounds = np.asarray(found.detach().numpy(), dtype=np.float64).reshape(rows.shape[:2])
        taken = time.perf_counter() - start
        self.last_call = (taken, len(lower))
        self.seconds[method] = min(taken / len(lower), self.seconds.get(method, math.inf))
        return np.asarray(np.where(np.isfinite(bounds), bounds, np.inf))

    def values(self, points: Floats) -> Floats:
        """Outputs `[b, m]` of points `[b, n]` in float64."""
        with in_double(), self._torch.no_grad():
            return np.array(self._module(self._torch.from_numpy(np.ascontiguousarray(points))).numpy())

    def slopes(self, points: Floats, rows: Floats) -> Floats:
        """Gradients `[b, n]` of one row `[b, m]` for each point `[b, n]`; zero where there is none."""
        torch = self._torch
        x = torch.from_numpy(np.array(points)).requires_grad_()
        with in_double(), torch.enable_grad():
            total = (self._module(x) * torch.from_numpy(np.ascontiguousarray(rows))).sum()
            if not total.requires_grad:
                return np.zeros_like(points)
            (gradient,) = torch.autograd.grad(total, [x], allow_unused=True)
        if gradient is None:
            return np.zeros_like(points)
        return np.asarray(np.nan_to_num(gradient.numpy(), posinf=0.0, neginf=0.0))

    def expected(self, method: Method) -> float:
        """Seconds that one box takes by a method: measured, or estimated from the size of the network."""
        if method in self.seconds:
            return self.seconds[method]
        crown = self.seconds.get(Method.CROWN, _FORWARDS * self._forward_seconds * sum(self._bent))
        return {
            Method.IBP: 4 * self._forward_seconds,
            Method.CROWN_IBP: 2 * _FORWARDS * self._forward_seconds * self.width,
            Method.CROWN: crown,
            Method.ALPHA: 60 * crown,
        }[method]

    def fits(self, method: Method, boxes: int = 1) -> bool:
        """Whether the matrices of one call are expected to fit into half of the free memory."""
        if method in (Method.IBP, Method.CROWN_IBP):
            return True
        widest = max(self._bent, default=1)
        return 8.0 * 4 * boxes * widest * max(widest, self.n) < _SHARE * _free_memory()

    def _timed_forward(self) -> float:
        points = np.zeros((64, self.n))
        taken = []
        for _ in range(_TIMED):
            start = time.perf_counter()
            self.values(points)
            taken.append(time.perf_counter() - start)
        return min(taken) / len(points)


def _demand_known(lowered: Lowered) -> None:
    program = lowered.program
    unknown = sorted({p.op for p in program.primitives} - _STRAIGHT - _BENT)
    if unknown:
        raise UnsupportedError(f"auto_LiRPA is not asked to bound {', '.join(unknown)}")
    for primitive in program.primitives:
        for name in primitive.outputs:
            value = program.values.get(name)
            if value is not None and value.dtype.kind != "f":
                raise UnsupportedError(f"tensors of integers are not bounded ({primitive.op})")


def _bent_sizes(lowered: Lowered) -> list[int]:
    """The sizes of the tensors that are not linear in what they read: their inputs need bounds of their own."""
    values = lowered.program.values
    return [values[p.outputs[0]].size for p in lowered.program.primitives if p.op in _BENT]


def _free_memory() -> float:
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    return 4e9


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[-200:] or type(error).__name__
