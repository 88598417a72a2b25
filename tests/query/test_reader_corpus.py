"""What fuzzing found worth keeping, and what it does: texts that are read mean the same to three evaluators.

The corpus holds one text for every way to be refused that `benchmarks/fuzz_readers.py` met, texts that once broke a
reader, and texts that are read. A file's name begins with what becomes of it.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from reader_grammar import grown_text
from reader_judge import DisagreementError, judge
from reader_mutations import SEEDS, mutated_text

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(path: Path) -> None:
    assert judge(path.read_bytes()) == path.name.partition("-")[0]


def test_the_corpus_holds_every_outcome() -> None:
    assert {path.name.partition("-")[0] for path in CORPUS} >= {"refused", "read", "compared"}


@pytest.mark.parametrize("rng_seed", range(4))
def test_texts_of_the_grammar_mean_the_same_to_every_evaluator(rng_seed: int) -> None:
    rng = random.Random(rng_seed)
    outcomes = [judge(grown_text(rng), i) for i in range(25)]
    assert outcomes.count("compared") > 12


@pytest.mark.parametrize("rng_seed", range(4))
def test_changed_texts_are_read_or_refused(rng_seed: int) -> None:
    rng = random.Random(rng_seed)
    outcomes = [judge(mutated_text(rng.choice(SEEDS), rng, rng.choice(SEEDS)), i) for i in range(60)]
    assert outcomes.count("refused") > 20


def test_a_reader_that_errs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judgement would be empty if it passed whatever is read: here comparisons are not turned round."""
    monkeypatch.setattr("falsifier.query.v1.FLIPPED", np.arange(6, dtype=np.int8))
    text = b"(declare-const X_0 Real)(declare-const Y_0 Real)(assert (<= X_0 1))(assert (<= -1 X_0))(assert (>= 0 Y_0))"
    with pytest.raises(DisagreementError, match="plainly"):
        judge(text)
