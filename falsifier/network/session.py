"""A session of onnxruntime: runs with arrays, or with values that stay where they are. Batches may be divided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError
from falsifier.network import runtime
from falsifier.network.division import Division

Array = NDArray[Any]


class Session:
    """A session whose failures are this package's exceptions."""

    def __init__(
        self,
        make: Callable[[int], Any],
        division: Division,
        fed: Mapping[str, Array] = MappingProxyType({}),
    ) -> None:
        """make: an `InferenceSession` with so many threads inside of a run; `fed`: inputs that are the same in every
        run. Raises what `make` raises.
        """
        self._division, self._fed = division, fed
        self._session = make(division.inside)
        self._whole: Any = None  # what runs batches that are not divided, where that is another one
        self._make = make if division.inside < division.threads else None  # gives the one that is better at that
        self._patience = division.patience
        inputs = self._session.get_inputs()
        self._inputs = {i.name for i in inputs}
        self._leads = {i.name: lead for i in inputs if (lead := _lead(i.shape))}
        self.outputs = [o.name for o in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """The outputs, rows of several parts joined."""
        feed = self._read(feed)
        lanes = max((len(feed[name]) // lead for name, lead in self._leads.items()), default=0)
        parts = self._division.parts(lanes)
        if len(parts) == 1:
            return self._plain(self._alone(lanes), feed)
        # of an input that has fewer rows all lanes read the same
        rows = {name: lead for name, lead in self._leads.items() if len(feed[name]) == lanes * lead}

        def run(part: slice) -> list[Array]:
            cut = {name: feed[name][part.start * lead : part.stop * lead] for name, lead in rows.items()}
            return self._plain(self._session, {**feed, **cut})

        results = self._division.each(parts, run)
        return [np.concatenate(rows) for rows in zip(*results, strict=True)]

    def kept(self, feeds: Sequence[Mapping[str, Any]], lanes: int) -> list[list[Any]]:
        """Results of every part of a batch as onnxruntime's own values, not copied; what is fed may be such values."""
        if len(feeds) == 1:
            return [self._bound(self._alone(lanes), feeds[0])]
        return self._division.each(feeds, lambda feed: self._bound(self._session, feed))

    def _alone(self, lanes: int) -> Any:
        """The session for a batch that is not divided. One that few such batches would pay for is not made."""
        if self._make is not None:
            self._patience -= lanes
            if self._patience < 0:
                with suppress(*runtime.errors()):  # the one that is there does as well
                    self._whole = self._make(self._division.threads)
                self._make = None
        return self._whole or self._session

    def _plain(self, session: Any, feed: Mapping[str, Array]) -> list[Array]:
        with _failing():
            results: list[Array] = session.run(self.outputs, feed)
        return results

    def _bound(self, session: Any, feed: Mapping[str, Any]) -> list[Any]:
        with _failing():
            binding = session.io_binding()
            for name, value in self._read(feed).items():
                if isinstance(value, np.ndarray):
                    binding.bind_cpu_input(name, np.ascontiguousarray(value))
                else:
                    binding.bind_ortvalue_input(name, value)
            for name in self.outputs:
                binding.bind_output(name, "cpu")
            session.run_with_iobinding(binding)
            results: list[Any] = binding.get_outputs()
        return results

    def _read(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """With what is fed in every run, and without what the program does not depend on: no input of its model."""
        if self._fed:
            feed = {**feed, **self._fed}
        return feed if feed.keys() == self._inputs else {n: value for n, value in feed.items() if n in self._inputs}


def _lead(shape: Sequence[int | str | None] | None) -> int:
    """How many rows of an input a lane has, as `onnx_graph` writes it down; 0 for one without lanes."""
    lanes = shape[0] if shape else None
    return int(lanes[1:] or 1) if isinstance(lanes, str) else 0


@contextmanager
def _failing() -> Iterator[None]:
    """Failures of a run as this package's exceptions."""
    try:
        yield
    except runtime.errors() as error:
        if runtime.is_out_of_memory(error):
            raise MemoryError(runtime.one_line(error)) from error
        raise EngineError(f"onnxruntime fails in the batched program: {runtime.one_line(error)}") from error
