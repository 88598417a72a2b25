"""The torch engine: interprets the lowered program with one torch closure per primitive, on the CPU or on CUDA.

Its gradient is the program's own adjoint, run without autograd: the same primitives as the onnxruntime engine's, so
that both search with the same straight-through lanes. Where a primitive has no adjoint, torch's autograd differentiates
the closures (and windows have no effect).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import finite
from falsifier.errors import EngineError, UnsupportedError
from falsifier.network.adjoint import add_adjoint
from falsifier.network.halves import halves
from falsifier.network.lowering import Lowered
from falsifier.network.observation import Layer, Observer, Watch, layers_of, probes
from falsifier.network.program import WINDOW, Value
from falsifier.network.torch_device import memory_guard, prepare_torch, resolve_device
from falsifier.network.torch_objective import output_seed, reduce, slacks
from falsifier.network.torch_plan import Constants, Plan, as_tensor
from falsifier.objective import Ascent, ObjectiveForm

Tensor = Any
Pullback = Callable[[Tensor], Tensor]  # seed [b, m] -> gradient [b, n]


class TorchEngine:
    """A network as batches of flat points through torch (`Engine`).

    `gradient` says where gradients come from: `adjoint`, `autograd` (then `why_no_adjoint` names the primitive) or
    `none`. `dtype` is that of points and outputs, by default the network's; asked for float64, the engine computes in
    float64 what the network computes in float32. Nothing in `outputs`, `vjp` and `ascend` waits for an accelerator. A
    run that does not fit into memory raises MemoryError after emptying torch's cache: the caller tries a smaller batch.
    """

    name = "torch"

    def __init__(
        self, lowered: Lowered, device: str = "auto", dtype: Any = None, *, threads: int | None = None
    ) -> None:
        """Raises InputError for a device that cannot be had, UnsupportedError for a primitive without a closure,
        ValueError for a `dtype` narrower than the network's.
        """
        import torch

        self._device = resolve_device(device)
        prepare_torch(self._device, threads)
        self.device = str(self._device)
        self.dtype = np.dtype(lowered.dtype if dtype is None else dtype)
        if self.dtype not in (lowered.dtype, np.dtype(np.float64)):
            raise ValueError(f"a {lowered.dtype} network is not run in {self.dtype}")
        self._type = {"float32": torch.float32, "float64": torch.float64}[self.dtype.name]
        self._lowered = lowered
        self.n, self.m = lowered.n, lowered.m
        self.stepped, self.lane_bytes = lowered.stepped, lowered.lane_bytes
        widen = dtype is not None and self.dtype == np.float64
        self._constants = Constants(dict(lowered.program.constants), self._device, widen=widen)
        self._inner: dict[tuple[str, ...], Plan] = {}
        self._passes: _Passes | None = None
        self.why_no_adjoint: str | None = None
        with memory_guard(self._device):
            self._forward = Plan(lowered.program, [lowered.x.name], [lowered.y.name], self._constants)
            self.gradient = self._choose_gradient()
        self.differentiable = self.gradient != "none"

    def _choose_gradient(self) -> str:
        import torch

        try:
            self._passes = _Passes(self._lowered, self._constants)
        except UnsupportedError as error:
            self.why_no_adjoint = str(error)
        else:
            return "adjoint"
        try:
            outputs, pull = self._by_autograd(torch.zeros(1, self.n, dtype=self._type, device=self._device))
            pull(torch.ones_like(outputs))
        except EngineError:
            return "none"
        return "autograd"

    def asarray(self, x: NDArray[Any]) -> Tensor:
        """Host data in this engine's dtype and on its device, copied."""
        return as_tensor(np.array(x, dtype=self.dtype)).to(self._device)

    def outputs(self, x: Tensor) -> Tensor:
        """`[b, n]` -> `[b, m]`."""
        import torch

        with memory_guard(self._device), torch.no_grad():
            return self._forward.run([x])[0]

    def activations(self, x: Tensor, tensors: Sequence[str]) -> dict[str, Tensor]:
        """Named tensors of the model from one run, each `[b, size]`. Raises EngineError for a name it does not know."""
        import torch

        known = self._lowered.tensors
        unknown = [name for name in tensors if name not in known]
        if unknown:
            raise EngineError(f"the lowered network has no tensor {unknown[0]!r}")
        names = tuple(dict.fromkeys(v.name for t in tensors if isinstance(v := known[t], Value)))
        lanes = x.shape[0]
        found: dict[str, Tensor] = {}
        with memory_guard(self._device), torch.no_grad():
            if names not in self._inner:
                self._inner[names] = Plan(self._lowered.program, [self._lowered.x.name], names, self._constants)
            run = dict(zip(names, self._inner[names].run([x]), strict=True))
            for name in tensors:
                operand = known[name]
                if isinstance(operand, Value):
                    found[name] = run[operand.name].to(self._type).reshape(lanes, operand.size)
                else:
                    constant = as_tensor(np.asarray(operand)).to(self._device, self._type)
                    found[name] = constant.reshape(1, -1).expand(lanes, -1)
        return found

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Tensors that activation functions make (`Observable`)."""
        return layers_of(self._lowered)

    def observer(self, watched: Sequence[Watch]) -> Observer:
        """Outputs and named activations from one run (`Observable`)."""
        import torch

        probed = probes(self._lowered, watched)
        names = tuple(value.name for value in probed.outputs)
        with memory_guard(self._device):
            # not those of the engine: two programs that go on from one call their own constants alike
            constants = self._constants.fork(dict(probed.build.program.constants))
            plan = Plan(probed.build.program, [self._lowered.x.name], names, constants)

        def run(x: Tensor) -> tuple[Tensor, Tensor]:
            lanes = x.shape[0]
            with memory_guard(self._device), torch.no_grad():
                outputs, *parts = plan.run([x])
                seen = [part.to(self._type).reshape(lanes, -1) for part in parts]
                return outputs, torch.cat(seen, 1) if seen else outputs[:, :0]

        return Observer(probed.widths, run)

    def vjp(self, x: Tensor, seed: Tensor, window: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs `[b, m]` and the gradient `[b, n]` of sum(seed * outputs), as it comes: it may be infinite or NaN.

        `window` as in `ascend`.
        """
        import torch

        with memory_guard(self._device), torch.no_grad():
            outputs, pull = self._linearise(x, window)
            return outputs, pull(seed)

    def pull(self, x: Tensor, seed: Callable[[Tensor], Tensor], window: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`vjp` with a seed that depends on the outputs (`Pulling`)."""
        import torch

        with memory_guard(self._device), torch.no_grad():
            outputs, pull = self._linearise(x, window)
            return outputs, pull(seed(outputs))

    def ascend(self, x: Tensor, objective: ObjectiveForm, window: Tensor | None = None) -> Ascent:
        """Outputs, slacks, score and its gradient in one run; elements of the gradient that are not finite are 0.

        `window` `[b]` as `Engine.ascend` says.
        """
        import torch

        with memory_guard(self._device), torch.no_grad():
            outputs, pull = self._linearise(x, window)
            slack = slacks(objective, outputs)
            score, weight = reduce(objective, slack)
            return Ascent(outputs, slack, score, weight, finite(pull(output_seed(objective, weight))))

    def _linearise(self, x: Tensor, window: Tensor | None) -> tuple[Tensor, Pullback]:
        """The outputs at `x`, and the map from a seed to the gradient there, which can be used once."""
        if self._passes is not None:
            return self._by_adjoint(self._passes, x, window)
        if self.gradient == "none":
            raise EngineError("torch has no gradient for this network")
        return self._by_autograd(x)

    def _by_adjoint(self, passes: _Passes, x: Tensor, window: Tensor | None) -> tuple[Tensor, Pullback]:
        outputs, *saved = passes.forward.run([x])

        def pull(seed: Tensor) -> Tensor:
            import torch

            if passes.reverse is None:
                return torch.zeros_like(x)
            saved.append(seed)
            if passes.window is not None:
                saved.append(self._widths(x.shape[0], window, passes.window))
            return passes.reverse.run(saved)[0]

        return outputs, pull

    def _by_autograd(self, x: Tensor) -> tuple[Tensor, Pullback]:
        import torch

        x = x.detach().requires_grad_()
        with torch.enable_grad():
            outputs = self._forward.run([x])[0]

        def pull(seed: Tensor) -> Tensor:
            if not outputs.requires_grad:
                return torch.zeros_like(x)
            try:
                (gradient,) = torch.autograd.grad(outputs, [x], seed, materialize_grads=True)
            except RuntimeError as error:
                raise EngineError(f"torch cannot differentiate the network: {str(error).splitlines()[0]}") from error
            return gradient

        return outputs.detach(), pull

    def _widths(self, lanes: int, window: Tensor | None, read: Value) -> Tensor:
        """Windows `[b]` as the program reads them: infinity becomes the largest finite number."""
        import torch

        if window is None:
            window = torch.full((lanes,), torch.inf, dtype=self._type, device=self._device)
        window = self._constants.typed(window, read.dtype)
        return window.clamp(max=torch.finfo(window.dtype).max)


class _Passes:
    """The forward pass that keeps what the reverse pass reads, and the reverse pass.

    `forward` gives the outputs and then what it saved; `reverse` takes what was saved, the seed and, if `window` is not
    None, the windows, and gives the gradient. `reverse` is None where no gradient flows: it is zero everywhere.
    """

    def __init__(self, lowered: Lowered, constants: Constants) -> None:
        """Raises UnsupportedError where a primitive on the way has no adjoint."""
        build = lowered.builder.fork()
        program = build.program
        x, y = lowered.x, lowered.y
        forward = {name for primitive in program.primitives for name in primitive.outputs} | {x.name}
        seed = build.input(build.fresh("seed"), y.stored, y.dtype)
        gradient = add_adjoint(build, {y.name: seed}).get(x.name)
        self.window = program.values.get(WINDOW)
        wanted = [] if gradient is None else [gradient.name]
        saved, _ = halves(program, forward, wanted)
        constants.arrays.update(program.constants)
        self.forward = Plan(program, [x.name], [y.name, *saved], constants)
        given = [*saved, seed.name, *([WINDOW] if self.window else [])]
        self.reverse = Plan(program, given, wanted, constants) if wanted else None
