"""A session of onnxruntime: runs with arrays, or with values that stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError
from falsifier.network import runtime

Array = NDArray[Any]


class Session:
    """A session whose failures are this package's exceptions."""

    def __init__(self, session: Any, fed: Mapping[str, Array] = MappingProxyType({})) -> None:
        """`fed`: inputs that are the same in every run."""
        self._session, self._fed = session, fed
        self._inputs = {i.name for i in session.get_inputs()}
        self.outputs = [o.name for o in session.get_outputs()]

    def run(self, feed: dict[str, Array]) -> list[Array]:
        with _failing():
            results: list[Array] = self._session.run(self.outputs, self._read(feed))
        return results

    def kept(self, feed: Mapping[str, Any]) -> list[Any]:
        """Results as onnxruntime's own values, not copied; what is fed may be such values as well."""
        with _failing():
            binding = self._session.io_binding()
            for name, value in self._read(feed).items():
                if isinstance(value, np.ndarray):
                    binding.bind_cpu_input(name, np.ascontiguousarray(value))
                else:
                    binding.bind_ortvalue_input(name, value)
            for name in self.outputs:
                binding.bind_output(name, "cpu")
            self._session.run_with_iobinding(binding)
            results: list[Any] = binding.get_outputs()
        return results

    def _read(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """With what is fed in every run, and without what the program does not depend on: no input of its model."""
        if self._fed:
            feed = {**feed, **self._fed}
        return feed if feed.keys() == self._inputs else {n: value for n, value in feed.items() if n in self._inputs}


@contextmanager
def _failing() -> Iterator[None]:
    """Failures of a run as this package's exceptions."""
    try:
        yield
    except runtime.errors() as error:
        if runtime.is_out_of_memory(error):
            raise MemoryError(runtime.one_line(error)) from error
        raise EngineError(f"onnxruntime fails in the batched program: {runtime.one_line(error)}") from error
