"""What users write: objectives and mutators by name, and what is said of those that are of no use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest

from falsifier.errors import InputError
from falsifier.fuzz.build import build
from falsifier.fuzz.mutators import Mutator
from falsifier.fuzz.mutators.noise import Noise
from falsifier.fuzz.mutators.special import Special
from falsifier.fuzz.mutators.text import Edits
from falsifier.fuzz.mutators.written import Written
from falsifier.fuzz.objectives import Objective
from falsifier.fuzz.run import fuzz
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.space import Space
from falsifier.testing.fuzz import MutatorContract, ObjectiveContract

NEG_EXP = models.chain([("Neg", [], {}), ("Exp", [], {})], [1, 2], [1, 2])


def _file(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text("import numpy as np\n" + text)
    return str(folder / "mine.py")


class TestNoise(MutatorContract):
    def mutator(self, space: Space) -> Mutator:
        return Noise(space)


class TestSpecial(MutatorContract):
    def mutator(self, space: Space) -> Mutator:
        return Special(space, [np.array([0.3, 7.0]), np.ones((1, 5))])


class TestEdits(MutatorContract):
    def mutator(self, space: Space) -> Mutator:
        return Edits(5, 7, 10, filled=False)


class TestWrittenMutator(MutatorContract):
    def mutator(self, space: Space) -> Mutator:
        def turn(inputs: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
            inputs["X"] = -inputs["X"] * generator.random(inputs["X"].shape)
            return inputs

        return Written("m:turn", turn, space)


def _parts(objective: str, **options: Any) -> tuple[Objective, Space, Any]:
    fuzzer = build(Settings(NEG_EXP, objective, ranges={"": (-2.0, 2.0)}, **options))
    return fuzzer.objective, fuzzer.space, fuzzer.run


class TestRange(ObjectiveContract):
    def parts(self) -> tuple[Objective, Space, Any]:
        return _parts("range:0.2,6")


class TestTopOne(ObjectiveContract):
    def parts(self) -> tuple[Objective, Space, Any]:
        return _parts("top1", inputs={"X": np.array([[1.0, 0.0]], np.float32)})


class TestDisagree(ObjectiveContract):
    def parts(self) -> tuple[Objective, Space, Any]:
        other = models.chain([("Neg", [], {}), ("Softplus", [], {})], [1, 2], [1, 2])
        return _parts("disagree", against=other, tolerance=2.0)


class TestNonFinite(ObjectiveContract):
    def parts(self) -> tuple[Objective, Space, Any]:
        fuzzer = build(Settings(models.chain([("Sqrt", [], {})], [1, 2], [1, 2]), ranges={"": (-0.1, 2.0)}))
        return fuzzer.objective, fuzzer.space, fuzzer.run


def test_an_objective_over_inner_tensors(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        "def deep(inputs, outputs, activations):\n"
        "    assert inputs['X'].shape[1:] == (2,) and outputs['Y'].shape[1:] == (2,)\n"
        "    return activations['t0'][:, 0] > 0.9\n"
        "deep.tensors = ('t0',)\n",
    )
    model = models.save(NEG_EXP, tmp_path / "m.onnx")
    report = fuzz(Settings(model, f"{file}:deep", out=tmp_path / "s", max_evaluations=4000, seconds=1e9, lanes=64))
    (hit,) = report.hits.values()
    assert hit.point[0] < -0.9
    from falsifier.fuzz.replay import Outcome, replay

    (folder,) = report.folders.values()
    outcome = replay(folder)
    assert outcome.outcome is Outcome.REPRODUCES, outcome.text


def test_labels_of_text_give_the_same_run_in_every_process(tmp_path: Path) -> None:
    models.save(NEG_EXP, tmp_path / "m.onnx")
    _file(
        tmp_path,
        "def parts(inputs, outputs, activations):\n"
        "    y = outputs['Y']\n"
        "    return y[:, 0], np.array([f'part {v}' for v in (4 * y[:, 1] % 9).astype(int)])\n",
    )
    found = "; ".join(
        (
            "from falsifier.fuzz.run import fuzz",
            "from falsifier.fuzz.settings import Settings",
            "report = fuzz(Settings('m.onnx', 'mine:parts', max_evaluations=300, seconds=1e9, lanes=64))",
            "print([(c, h.point.tolist()) for c, h in report.hits.items()])",
        )
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", found],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0].count("part") > 2
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(i, o, a):\n    return o['Y']\n", "one number or bool for each"),
        ("def f(i, o, a):\n    return np.zeros(len(o['Y'])), np.zeros(1)\n", "1 labels for"),
        ("g = 1\n", "has no function 'f'"),
        ("def f(i):\n    return i\n", "has to take 3 arguments: inputs, outputs, activations"),
        ("import not_there\n", "no module 'not_there'"),
    ],
)
def test_objectives_of_no_use_are_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        fuzz(Settings(NEG_EXP, f"{_file(tmp_path, text)}:f", max_evaluations=300, seconds=1e9, lanes=8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(i, g):\n    return None\n", "returned a NoneType"),
        ("def f(i, g):\n    return {'X': i['X'][:1]}\n", "1 samples for"),
        ("def f(i, g):\n    return {}\n", "'X' is missing"),
        ("def f(i):\n    return i\n", "has to take 2 arguments: inputs, generator"),
    ],
)
def test_mutators_of_no_use_are_said(tmp_path: Path, text: str, said: str) -> None:
    settings = Settings(
        NEG_EXP,
        "range:0,100",
        mutators=(f"{_file(tmp_path, text)}:f",),
        only_mutators=True,
        max_evaluations=300,
        lanes=8,
    )
    with pytest.raises(InputError, match=said):
        fuzz(settings)


def test_known_mutators_go_by_name() -> None:
    fuzzer = build(Settings(NEG_EXP, "range:0,100", mutators=("noise",), only_mutators=True))
    assert [m.name for m, _ in fuzzer.mutators] == ["noise"]
    with pytest.raises(InputError, match="no mutator 'nose' here: noise, special, uphill"):
        build(Settings(NEG_EXP, "range:0,100", mutators=("nose",)))
