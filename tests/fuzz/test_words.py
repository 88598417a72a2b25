"""Language models: two forms of one bigram model, greedy and sampled; words found behind prompts; edits of text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import helper

from falsifier.arrays import Rng
from falsifier.errors import InputError
from falsifier.fuzz.language import LanguageModel, read_vocabulary
from falsifier.fuzz.mutators.text import FILLER, Edits
from falsifier.fuzz.objectives.words import Words, read_words
from falsifier.fuzz.run import fuzz
from falsifier.fuzz.settings import Settings
from falsifier.network import load

VOCABULARY = "abcdefghijklmnop"
NEXT = {"a": "b", "b": "a", "c": "d", "d": "o", "o": "g", "g": "c"}  # others go to a: "dog" needs c, d, o or g


def _table() -> np.ndarray:
    v = len(VOCABULARY)
    table = np.zeros((v, v), np.float32)
    for i, letter in enumerate(VOCABULARY):
        table[i, VOCABULARY.index(NEXT.get(letter, "a"))] = 5.0
    return table


def fed_again() -> onnx.ModelProto:
    """Tokens [b, length] -> logits [b, length, v]."""
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["logits"])]
    return models.model(
        nodes,
        [models.tensor("tokens", ["b", "length"], np.int64)],
        [models.tensor("logits", ["b", "length", len(VOCABULARY)])],
        [models.constant("table", _table())],
    )


def stepped() -> onnx.ModelProto:
    """Token [b, 1] and state [1, b, v] -> logits [b, v], next state: its own logits and a tenth of the last ones."""
    nodes = [
        helper.make_node("Gather", ["table", "token"], ["rows"]),
        helper.make_node("Squeeze", ["rows", "one"], ["row"]),
        helper.make_node("Squeeze", ["state", "zero"], ["last"]),
        helper.make_node("Mul", ["last", "tenth"], ["faded"]),
        helper.make_node("Add", ["row", "faded"], ["logits"]),
        helper.make_node("Unsqueeze", ["logits", "zero"], ["next"]),
    ]
    v = len(VOCABULARY)
    return models.model(
        nodes,
        [models.tensor("token", ["b", 1], np.int64), models.tensor("state", [1, "b", v])],
        [models.tensor("logits", ["b", v]), models.tensor("next", [1, "b", v])],
        [
            models.constant("table", _table()),
            models.constant("one", [1], np.int64),
            models.constant("zero", [0], np.int64),
            models.constant("tenth", 0.1),
        ],
    )


def _model(proto: onnx.ModelProto, **options: object) -> LanguageModel:
    return LanguageModel(load(proto), VOCABULARY, length=8, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [fed_again, stepped])
def test_a_model_writes_what_it_would(make: object) -> None:
    model = _model(make())  # type: ignore[operator]
    prompts = np.full((3, 5), FILLER)
    prompts[0, :1] = model.ids("c")
    prompts[1, :3] = model.ids("abc")
    prompts[2, :2] = model.ids("pq")  # q is no token
    made, logits = model.generate(prompts)
    assert [model.text(row) for row in made] == ["dogcdogc", "dogcdogc", "abababab"]
    assert logits.shape == (3, len(VOCABULARY))
    for lane in range(3):
        np.testing.assert_array_equal(model.generate(prompts[lane : lane + 1])[0][0], made[lane])


def test_sampling_repeats_with_its_seed() -> None:
    prompts = np.array([[0, FILLER], [2, 3]])
    hot = [_model(fed_again(), sample_seed=seed, temperature=5.0).generate(prompts)[0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(hot[0], hot[1])
    assert (hot[0] != hot[2]).any()


@pytest.mark.parametrize("make", [fed_again, stepped])
def test_words_are_found_and_reproduced(tmp_path: Path, make: object) -> None:
    path = models.save(make(), tmp_path / "lm.onnx")  # type: ignore[operator]
    (tmp_path / "words.txt").write_text("# bad\ndog\nzebra\n")
    (tmp_path / "tokens.json").write_text(json.dumps({c: i for i, c in enumerate(VOCABULARY)}))
    (tmp_path / "prompts.txt").write_text("ab\nba\n")
    settings = Settings(
        path,
        f"words:{tmp_path / 'words.txt'}",
        tokens=tmp_path / "tokens.json",
        inputs=tmp_path / "prompts.txt",
        out=tmp_path / "s",
        generate=6,
        max_evaluations=3000,
        seconds=1e9,
    )
    report = fuzz(settings)
    (hit,) = report.hits.values()
    assert hit.finding.cause == "word-dog"
    assert hit.finding.details["prompt"].endswith(tuple("cdog"))
    script = report.folders["word-dog"] / "reproduce.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "dog" in done.stdout


def test_words_of_several_characters_a_token() -> None:
    vocabulary = ["do", "g", "x"]
    table = np.array([[0, 5, 0], [0, 0, 5], [5, 0, 0]], np.float32)  # do -> g -> x -> do
    proto = models.model(
        [helper.make_node("Gather", ["table", "tokens"], ["logits"])],
        [models.tensor("tokens", ["b", "length"], np.int64)],
        [models.tensor("logits", ["b", "length", 3])],
        [models.constant("table", table)],
    )
    model = LanguageModel(load(proto), vocabulary, length=2)
    objective = Words(model, ["gx"])
    x = np.array([[0.0], [1.0], [2.0]], np.float32)
    assert objective.judge(x, model.run(x), np.zeros(3, np.int64)).hit.tolist() == [True, False, False]
    assert objective.confirm(x[0], 0) is not None
    assert objective.confirm(x[1], 0) is None


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="holds no words"):
        read_words(tmp_path / "none.txt")
    (tmp_path / "bad.json").write_text('{"a": 0, "b": 5}')
    with pytest.raises(InputError, match=r"0 \.\. 1, each once"):
        read_vocabulary(tmp_path / "bad.json")
    with pytest.raises(InputError, match="16 logits for 3 tokens"):
        LanguageModel(load(fed_again()), "abc")


def _texts(rows: np.ndarray) -> list[list[int]]:
    return [[int(v) for v in row if v != FILLER] for row in rows]


def test_edits_change_few_tokens_and_keep_text_closed() -> None:
    rng = np.random.default_rng(0)
    parents = np.full((400, 10), float(FILLER), np.float32)
    for row in parents:
        length = rng.integers(1, 11)
        row[:length] = rng.integers(0, 5, length)
    children = Edits(0, 10, 5, filled=True).children(parents, np.zeros(400, np.int64), Rng(0))
    ended = np.cumsum(children == FILLER, axis=1) > 0
    assert (children[ended] == FILLER).all()  # nothing behind the first filler
    lengths = {len(b) - len(a) for a, b in zip(_texts(parents), _texts(children), strict=True)}
    assert {-1, 0, 1} <= lengths
    assert min(len(t) for t in _texts(children)) >= 1
    assert children.min() >= FILLER
    assert children.max() <= 4


def test_edits_of_a_fixed_length_keep_it() -> None:
    parents = np.random.default_rng(0).integers(0, 5, (200, 6)).astype(np.float32)
    children = Edits(1, 6, 5, filled=False).children(parents, np.zeros(200, np.int64), Rng(0))
    np.testing.assert_array_equal(children[:, 0], parents[:, 0])
    assert (children >= 0).all()
    assert (children <= 4).all()
    assert (children != parents).any(axis=1).mean() > 0.6


def test_text_of_a_fixed_length_is_edited_for_any_objective(tmp_path: Path) -> None:
    """Three tokens are looked up and summed; only "zzz" exceeds the range."""
    size = 26
    table = np.arange(size, dtype=np.float32)[:, None]
    proto = models.model(
        [
            helper.make_node("Gather", ["table", "X"], ["rows"]),
            helper.make_node("ReduceSum", ["rows", "axes"], ["Y"], keepdims=0),
        ],
        [models.tensor("X", [1, 3], np.int64)],
        [models.tensor("Y", [1, 1])],
        [models.constant("table", table), models.constant("axes", [1], np.int64)],
    )
    (tmp_path / "tokens.json").write_text(json.dumps([chr(97 + i) for i in range(size)]))
    settings = Settings(
        models.save(proto, tmp_path / "m.onnx"),
        "range:0,74.5",
        tokens=tmp_path / "tokens.json",
        mutators=("edits",),
        only_mutators=True,
        max_evaluations=200_000,
        seconds=1e9,
        causes=1,
        lanes=512,
    )
    report = fuzz(settings)
    (hit,) = report.hits.values()
    assert hit.point.tolist() == [25, 25, 25]
