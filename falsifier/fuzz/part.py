"""Runs a part of a program in onnxruntime: named inputs in, chosen values out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from falsifier.errors import EngineError
from falsifier.network import runtime
from falsifier.network.division import Division
from falsifier.network.onnx_graph import write_graph
from falsifier.network.program import Builder, Value
from falsifier.network.session import Session


class Part(Session):
    """A session for some values of a program. Raises EngineError where onnxruntime has no kernel for a primitive."""

    def __init__(self, build: Builder, inputs: Sequence[Value], outputs: Sequence[Value], division: Division) -> None:
        import onnxruntime

        outputs = [_own(build, v) for v in outputs]
        graph = write_graph(build.program, inputs, outputs)
        held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in graph.shared.items()}
        # whatever the optimiser fuses or folds is gone from what is to be watched
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

        def make(threads: int) -> Any:
            return runtime.inference_session(graph.model, threads, level, held, integers=False)

        self._held = held
        try:
            super().__init__(make, division)
        except runtime.errors() as error:
            raise EngineError(f"onnxruntime does not take the watched program: {runtime.one_line(error)}") from error


def _own(build: Builder, value: Value) -> Value:
    """`value` as an output of its own: an input cannot be one, and no value may be one twice."""
    return build.emit("Identity", [value], value.stored, value.dtype, lead=value.lead)
