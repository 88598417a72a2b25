"""The lowered program as a torch module of plain torch operations, for tools that trace one.

This module imports torch when it is imported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from falsifier.network.lowering import Lowered
from falsifier.network.torch_plan import Constants, Plan

_TYPES = {"float32": torch.float32, "float64": torch.float64}


class ProgramModule(torch.nn.Module):
    """A network as a module: one tensor `[b, *shape]` per input of the model, where `shape` is that of one sample (with
    the model's own leading 1, if it has one), to one `[b, *shape]` per output, a tuple where there are several.

    Every lane is computed by itself. Constants are buffers, so that `.to(device)` moves them; there are no parameters.
    """

    def __init__(self, lowered: Lowered) -> None:
        """Raises UnsupportedError for a primitive without a torch closure."""
        super().__init__()
        constants = Constants(lowered.program.constants, torch.device("cpu"), widen=False)
        self._plan = Plan(lowered.program, [lowered.x.name], [lowered.y.name], constants)
        self._type = _TYPES[lowered.dtype.name]
        self._shapes = [info.shape for info in lowered.outputs]
        self._sizes = [info.size for info in lowered.outputs]
        self._buffer_names = {slot: f"constant_{slot}" for slot in self._plan.device_slots}
        for slot, name in self._buffer_names.items():
            self.register_buffer(name, self._plan.fixed(slot), persistent=False)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """`[b, *shape]` per input -> `[b, *shape]` per output, in float32 (float64 where an input of the model is)."""
        lanes = inputs[0].shape[0]
        flat = [x.reshape(lanes, -1).to(self._type) for x in inputs]
        x = flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)
        y: torch.Tensor = self._plan.run([x], {slot: getattr(self, name) for slot, name in self._buffer_names.items()})[
            0
        ]
        if len(self._shapes) == 1:
            return y.reshape(lanes, *self._shapes[0])
        parts = torch.split(y, self._sizes, dim=1)
        return tuple(part.reshape(lanes, *shape) for part, shape in zip(parts, self._shapes, strict=True))


class FlatModule(torch.nn.Module):
    """A network as a module on flat points in float64: `[b, n]` -> `[b, m]`, for tools that bound networks.

    What is traced are plain torch operations with constants. The last of them is linear (an identity), so that a
    specification matrix can be folded into it. `columns` `[c]`: inputs that are outputs too, `[b, m + c]`, for
    specifications that mention inputs.
    """

    def __init__(self, lowered: Lowered, columns: Sequence[int] = ()) -> None:
        """Raises UnsupportedError for a primitive without a torch closure."""
        super().__init__()
        constants = Constants(lowered.program.constants, torch.device("cpu"), widen=True)
        self._plan = Plan(lowered.program, [lowered.x.name], [lowered.y.name], constants)
        self._columns = torch.tensor(list(columns), dtype=torch.int64)
        self._last = torch.eye(lowered.m + len(columns), dtype=torch.float64)
        self._pick = torch.eye(lowered.n, dtype=torch.float64)[self._columns]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[b, n]` -> `[b, m + c]`."""
        y: torch.Tensor = self._plan.run([x])[0]
        if self._columns.numel():
            y = torch.cat([y, torch.nn.functional.linear(x, self._pick)], dim=1)
        return torch.nn.functional.linear(y, self._last, torch.zeros_like(self._last[0]))
