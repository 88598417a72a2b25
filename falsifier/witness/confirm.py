"""The door: replay a candidate on the original networks and judge it by the query's syntax tree.

The replay is onnxruntime's, on the CPU, one sample. Two readings are asked: the query as written in float64 arithmetic,
and the rule that the competition publishes (VNN-COMP 2026: float32 inputs against bounds rounded to float32).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import EngineError, InputError
from falsifier.query.evaluate import Arithmetic, failing
from falsifier.query.tree import Kind
from falsifier.records import replaced
from falsifier.witness.binding import CastError, bind
from falsifier.witness.outcome import Rejection, Values, Witness, WitnessClass
from falsifier.witness.polish import Bounds, input_bounds, polish

if TYPE_CHECKING:
    from falsifier.network.reference import Reference
    from falsifier.query.tree import Query


class Door:
    """Confirms candidates of one query on the references of its networks, one per declaration, in the query's order."""

    def __init__(
        self, query: Query, references: Sequence[Reference], require: WitnessClass = WitnessClass.CORRECT
    ) -> None:
        """Raises InputError where the query does not fit the networks."""
        self.require = require
        self.binding = bind(query, references)
        self.query = self.binding.query

    def confirm(self, point: NDArray[Any]) -> Witness | Rejection:
        """Judge a flat point `[n]` over the inputs of all networks, moved into the bounds as written if that helps."""
        try:
            inputs = self.binding.split(point)
        except CastError as error:
            return Rejection(str(error))
        polished = [polish(value, bounds) for value, bounds in zip(inputs, self._bounds, strict=True)]
        if all(a is b for a, b in zip(inputs, polished, strict=True)):
            return self._judge(inputs)
        verdict = self._judge(polished)
        if isinstance(verdict, Witness):
            return verdict
        # outside the bounds as written, and inside no witness: the published rule may still accept it
        return self._judge(inputs)

    def replay(self, inputs: Sequence[NDArray[Any]]) -> Witness | Rejection:
        """Judge one array per declared input, unchanged."""
        try:
            return self._judge(self.binding.cast(inputs))
        except CastError as error:
            return Rejection(str(error))

    def margin(self, witness: Witness) -> float:
        """How deep a witness satisfies the query (`query.depth`), in the arithmetic that its class rests on."""
        from falsifier.query.depth import depth

        values = [value for _, value in witness.by_variable(self.query)]
        exact = witness.class_ is WitnessClass.EXACT
        return depth(self.query, values, Arithmetic.EXACT if exact else Arithmetic.PUBLISHED)

    @cached_property
    def _bounds(self) -> list[Bounds]:
        """The bounds of every declared input."""
        bounds = input_bounds(self.query)
        return [
            bounds[at : at + variable.size] for _, variable, at in self.query.offsets() if variable.kind is Kind.INPUT
        ]

    def _judge(self, inputs: Values) -> Witness | Rejection:
        try:
            hidden, outputs, values = self._run(inputs)
        except (InputError, EngineError) as error:  # a model may refuse some inputs, say an index out of range
            return Rejection(str(error))
        if failing(self.query, values, Arithmetic.PUBLISHED):
            return self._rejection(values, Arithmetic.PUBLISHED)
        if any(reference.may_remember for reference in self.binding.references):
            with suppress(InputError, EngineError):  # what a network remembers of this point is not to confirm it
                self._run([np.zeros_like(v) if v.any() else np.ones_like(v) for v in inputs])
        _, _, again = self._run(inputs)
        if any(a.tobytes() != b.tobytes() for a, b in zip(values, again, strict=True)):
            return Rejection("the network's outputs are random: they differ from run to run")
        if failing(self.query, values, Arithmetic.EXACT):
            doubt = self._rejection(values, Arithmetic.EXACT)
            doubt = replaced(
                doubt, reason=f"holds only under the published rule; as written {doubt.reason}", published=True
            )
        elif all(bool(np.isfinite(computed).all()) for computed in (*hidden, *outputs)):
            return Witness(inputs, outputs, WitnessClass.EXACT, "every assertion holds as written", hidden)
        else:
            doubt = Rejection("every assertion holds, but an output is not finite", published=True)
        if self.require is WitnessClass.EXACT:
            return doubt
        return Witness(inputs, outputs, WitnessClass.CORRECT, doubt.reason, hidden)

    def _rejection(self, values: Values, arithmetic: Arithmetic) -> Rejection:
        """What fails in an arithmetic, told by the atom that fails by most."""
        from falsifier.query.explain import explain

        failures = explain(self.query, values, arithmetic)
        worst = max(failures, key=lambda failure: failure.shortfall)
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        reason = f"{worst.atom} fails by {worst.shortfall:.3g}{more}"
        return Rejection(reason, tuple(failure.assertion for failure in failures), worst.shortfall)

    def _run(self, inputs: Values) -> tuple[Values, Values, Values]:
        """Hidden tensors and outputs of all networks, and everything in the order of the query's variables."""
        left = list(inputs)
        hidden: Values = []
        outputs: Values = []
        values: Values = []
        for network, reference in zip(self.query.networks, self.binding.references, strict=True):
            mine = [left.pop(0) for _ in reference.inputs]
            inner, got = (list(map(np.ravel, arrays)) for arrays in reference.observe(mine))
            hidden += inner
            outputs += got
            values += mine[: len(network.inputs)] + inner + got[: len(network.outputs)]
        return hidden, outputs, values
