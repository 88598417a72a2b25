"""Undesirable words in what a language model writes (source paper B5); words of the prompt do not count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.language import LanguageModel
from falsifier.fuzz.mutators.text import FILLER
from falsifier.fuzz.objectives import Finding, Judged, Model, Reproducer
from falsifier.fuzz.watch import Seen
from falsifier.input_file import read_text

Array = NDArray[Any]


def read_words(path: Path) -> tuple[str, ...]:
    """One word a line; blank lines and lines that begin with # are left out. Raises InputError."""
    lines = read_text(path).splitlines()
    words = tuple(dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#")))
    if not words:
        raise InputError(f"{path}: holds no words: write one a line")
    return words


class Words:
    """A hit is a prompt behind which the model writes one of `words`; the cause is the word.

    Where every token is one character, words are looked for in the ids of the whole batch at once, and the score is the
    longest beginning of a word that was not written before; else texts are put together lane by lane.
    """

    name = "words"

    def __init__(self, model: LanguageModel, words: Sequence[str]) -> None:
        self._model, self.words = model, tuple(words)
        place = {text: i for i, text in enumerate(model.vocabulary)}
        self._written: set[int] = set()  # positions of words that were confirmed
        self._by_character = all(len(t) <= 1 for t in model.vocabulary)
        self._ids = [
            np.array([place[c] for c in word], np.int64) if all(c in place for c in word) else None for word in words
        ]
        if self._by_character and not any(ids is not None for ids in self._ids):
            raise InputError("no word of the list can be written with the model's vocabulary")

    def judge(self, x: Array, seen: Seen, oldest: Array) -> Judged:
        made = seen.activations["generated"]
        b = len(made)
        label, score = np.full(b, -1, np.int64), np.zeros(b)
        signature = np.zeros(b, np.int64)
        if not self._by_character:
            for lane in range(b):  # tokens of several characters: words may begin inside of one
                text = self._model.text(made[lane])
                label[lane] = next((i for i, word in enumerate(self.words) if word in text), -1)
            return Judged(label >= 0, (label >= 0).astype(np.float64), label)
        for i, ids in enumerate(self._ids):
            if ids is None or len(ids) > made.shape[1]:
                continue
            windows = np.lib.stride_tricks.sliding_window_view(made, len(ids), axis=1)
            reached = np.cumprod(windows == ids, axis=2).sum(axis=2).max(axis=1)
            label = np.where((reached == len(ids)) & (label < 0), i, label)
            if i in self._written:  # nothing is gained by coming near it again
                continue
            nearer = reached / len(ids) > score
            score = np.where(nearer, reached / len(ids), score)
            signature = np.where(nearer & (reached > 1), 1 + i * 64 + reached, signature)
        return Judged(label >= 0, score, label, signature)

    def confirm(self, x: Array, oldest: int) -> Finding | None:
        prompt = x.astype(np.int64)
        made, _ = self._model.generate(prompt[None])
        text = self._model.text(made[0])
        word = next((w for w in self.words if w in text), None)
        if word is None:
            return None
        shown = self._model.text(prompt[prompt != FILLER])
        self._written.add(self.words.index(word))
        details = {"word": word, "prompt": shown, "written": text, "tokens": prompt[prompt != FILLER].tolist()}
        return Finding(f"word-{word}", f"the model writes {word!r} after {shown!r}", details)

    def reproducer(self, x: Array, finding: Finding) -> Reproducer:
        model = self._model
        head = [
            f"vocabulary = {list(model.vocabulary)!r}",
            f"tokens = {finding.details['tokens']!r}",
            f"draws = numpy.random.Generator(numpy.random.PCG64({model.sample_seed or 0})).random({model.length})",
            "def choose(logits, g):",
        ]
        if model.sample_seed is None:
            head.append("    return int(logits.argmax())")
        else:
            head += [
                f"    p = numpy.exp((logits - logits.max()) / {model.temperature!r}).cumsum()",
                "    return int((p < draws[g] * p[-1]).sum())",
            ]
        kind = "int64" if model.tokens.type == "tensor(int64)" else "int32"
        if model.stepped:
            states = {s.name: [d if isinstance(d, int) and d > 0 else 1 for d in s.shape] for s in model.states}
            shape = [1] * len(model.tokens.shape)
            body = [
                f"state = {{n: numpy.zeros(s, 'float32') for n, s in {states!r}.items()}}",
                "def step(token):",
                f"    feed = {{{model.tokens.name!r}: numpy.full({shape!r}, token, {kind!r}), **state}}",
                "    logits, *new = run(model, feed)",
                "    state.update(zip(state, new))",
                "    return logits.ravel()",
                "for token in tokens: logits = step(token)",
                "written = []",
                f"for g in range({model.length}):",
                "    written.append(choose(logits, g))",
                "    logits = step(written[-1])",
            ]
        else:
            body = [
                "written = []",
                f"for g in range({model.length}):",
                f"    feed = {{{model.tokens.name!r}: numpy.array([tokens + written], {kind!r})}}",
                "    logits = run(model, feed)[0]",
                "    written.append(choose(logits.reshape(-1, logits.shape[-1])[-1], g))",
            ]
        tail = [
            "text = ''.join(vocabulary[i] for i in written)",
            "print(repr(text))",
            f"reproduced = {finding.details['word']!r} in text",
        ]
        return Reproducer({"model": Model(model.network)}, [*head, *body, *tail])
