"""A language model as it is used: a prompt goes in, tokens come out, one after the other, greedy or sampled.

Two forms: a model that takes the whole text `[1, length]` and is fed again with what it made, and one that takes one
token and a state, and gives the next state. Axes: b lane, p prompt position, g generated position, v vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.mutators.text import FILLER
from falsifier.fuzz.watch import Seen
from falsifier.input_file import read_text
from falsifier.network import Network, runtime

Array = NDArray[Any]


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """Token texts by id, from a JSON list of texts or an object text -> id. Raises InputError."""
    try:
        found = json.loads(read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    if isinstance(found, dict):
        texts = {v: k for k, v in found.items()}
        if sorted(texts, key=str) != sorted(range(len(found)), key=str):
            raise InputError(f"{path}: the ids of a vocabulary have to be 0 .. {len(found) - 1}, each once")
        found = [texts[i] for i in range(len(found))]
    if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
        raise InputError(f"{path}: a vocabulary is a JSON list of texts, or an object of texts and their ids")
    return tuple(found)


class LanguageModel:
    """Runs prompts `[b, p]` (ids, -1 behind the end) and generates `length` tokens.

    `sample_seed` None: greedy. Else token g is drawn by the g-th number of that rng seed, the same for every prompt, at
    `temperature`, so that a prompt always gives the same text. Raises InputError for a model of neither form.
    """

    def __init__(
        self,
        network: Network,
        vocabulary: Sequence[str],
        *,
        length: int = 32,
        sample_seed: int | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.network, self.vocabulary, self.length = network, tuple(vocabulary), length
        self.sample_seed, self.temperature = sample_seed, temperature
        self._session = _session(network)
        inputs = self._session.get_inputs()
        whole = [i for i in inputs if i.type in ("tensor(int64)", "tensor(int32)")]
        if len(whole) != 1:
            raise InputError(
                f"{network.origin}: a language model has one integer input, its tokens; this one has {len(whole)}"
            )
        self.tokens = whole[0]
        self.states = [i for i in inputs if i is not self.tokens]
        outputs = self._session.get_outputs()
        self._names = [o.name for o in outputs]
        if len(outputs) < 1 + len(self.states):
            raise InputError(
                f"{network.origin}: {len(self.states)} states go in and {len(outputs) - 1} come out: the logits come "
                "first among the outputs, then the states in the order of the inputs"
            )
        self.stepped = bool(self.states)
        self._type = np.int64 if self.tokens.type == "tensor(int64)" else np.int32
        self.batched = all(i.shape and not isinstance(i.shape[_lane_axis(i)], int) for i in inputs)
        draws = np.random.Generator(np.random.PCG64(sample_seed or 0)).random(length)
        self._draws = None if sample_seed is None else draws
        probe = self.generate(np.zeros((1, 1), np.int64))[1]
        if probe.shape[1] != len(self.vocabulary):
            raise InputError(
                f"{network.origin}: {probe.shape[1]} logits for {len(self.vocabulary)} tokens of the vocabulary"
            )

    def run(self, x: Array) -> Seen:
        """Outputs: the logits behind the last token `[b, v]`; activations: `generated` `[b, g]`."""
        parts = [x] if self.batched else [x[i : i + 1] for i in range(len(x))]
        results = [self.generate(part.astype(np.int64)) for part in parts]
        logits = np.concatenate([r[1] for r in results])
        return Seen(logits, np.zeros((len(x), 0), np.bool_), {"generated": np.concatenate([r[0] for r in results])})

    def generate(self, prompts: Array) -> tuple[Array, Array]:
        """Generated ids `[b, g]` and the last logits `[b, v]`. Texts of different lengths run in groups of one."""
        b = len(prompts)
        lengths = np.maximum((np.cumsum(prompts == FILLER, axis=1) == 0).sum(axis=1), 1)
        made = np.zeros((b, self.length), np.int64)
        last: Array | None = None
        for length in np.unique(lengths):
            lanes = np.flatnonzero(lengths == length)
            texts = np.maximum(prompts[lanes, :length], 0)
            made[lanes], logits = self._stepwise(texts) if self.stepped else self._again(texts)
            if last is None:
                last = np.zeros((b, logits.shape[1]), logits.dtype)
            last[lanes] = logits
        assert last is not None
        return made, last

    def _stepwise(self, texts: Array) -> tuple[Array, Array]:
        lanes = len(texts)
        state = {s.name: np.zeros(_shape(s, lanes), np.float32) for s in self.states}
        logits = np.zeros((lanes, len(self.vocabulary)), np.float32)
        for column in texts.T:
            logits, state = self._step(column, state)
        made = []
        for g in range(self.length):
            made.append(self._next(logits, g))
            logits, state = self._step(made[-1], state)
        return np.stack(made, axis=1), logits

    def _step(self, column: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        shape = [len(column), *[1] * (len(self.tokens.shape) - 1)]
        results = self._call({self.tokens.name: column.reshape(shape).astype(self._type), **state})
        states = {s.name: r for s, r in zip(self.states, results[1:], strict=False)}
        return results[0].reshape(len(column), -1), states

    def _again(self, texts: Array) -> tuple[Array, Array]:
        made: list[Array] = []
        logits = np.zeros(0)
        for g in range(self.length + 1):
            whole = np.concatenate([texts, *(m[:, None] for m in made)], axis=1)
            result = self._call({self.tokens.name: whole.astype(self._type)})[0]
            logits = result.reshape(len(texts), -1, result.shape[-1])[:, -1]
            if g < self.length:
                made.append(self._next(logits, g))
        return np.stack(made, axis=1), logits

    def _call(self, feed: dict[str, Array]) -> list[Array]:
        try:
            return [np.asarray(r) for r in self._session.run(self._names, feed)]
        except runtime.errors() as error:
            raise InputError(f"{self.network.origin}: fails on a text: {runtime.one_line(error)}") from error

    def _next(self, logits: Array, g: int) -> Array:
        if self._draws is None:
            return np.asarray(logits.argmax(axis=1))
        wide = logits.astype(np.float64) / self.temperature
        weight = np.exp(wide - wide.max(axis=1, keepdims=True))
        total = np.cumsum(weight, axis=1)
        below = (total < self._draws[g] * total[:, -1:]).sum(axis=1)
        return np.asarray(np.minimum(below, logits.shape[1] - 1))

    def text(self, ids: Array) -> str:
        """Ids `[k]` as text; what is no token is left out."""
        return "".join(self.vocabulary[i] for i in ids.tolist() if 0 <= i < len(self.vocabulary))

    def ids(self, text: str) -> list[int]:
        """A text as ids, by the longest token that fits at each place; characters that none begins are left out."""
        order = sorted(range(len(self.vocabulary)), key=lambda i: -len(self.vocabulary[i]))
        found, at = [], 0
        while at < len(text):
            token = next((i for i in order if self.vocabulary[i] and text.startswith(self.vocabulary[i], at)), None)
            if token is None:
                at += 1
                continue
            found.append(token)
            at += len(self.vocabulary[token])
        return found


def _session(network: Network) -> Any:
    import onnxruntime

    options = runtime.session_options(threads=1)
    model = str(network.path) if network.plain else network.data
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except runtime.errors() as error:
        raise InputError(f"{network.origin}: onnxruntime cannot load this model: {runtime.one_line(error)}") from error


def _lane_axis(info: Any) -> int:
    """Where the batch lies: first, but second in a recurrent state [layers, batch, width]."""
    return 1 if len(info.shape) == 3 and isinstance(info.shape[0], int) and not isinstance(info.shape[1], int) else 0


def _shape(info: Any, lanes: int) -> list[int]:
    axis = _lane_axis(info)
    return [lanes if i == axis and not isinstance(d, int) else (d if isinstance(d, int) and d > 0 else 1)
            for i, d in enumerate(info.shape)]  # fmt: skip
