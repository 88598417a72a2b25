"""The door and the arena's independent judge say the same of a witness, on the edge and off it, in both formats."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from numpy.typing import NDArray
from several_networks import VERSION, asserts, bent, network

from falsifier.arguments import as_networks
from falsifier.network import load
from falsifier.query import parse
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Rejection, Witness, WitnessClass
from falsifier.witness.text import write_witness

JUDGE = Path(__file__).resolve().parents[2].parent / "shared" / "arena" / "judge.py"
pytestmark = pytest.mark.skipif(not JUDGE.exists(), reason="the arena is not beside the repository")

WORDS = {"exact": WitnessClass.EXACT, "correct": WitnessClass.CORRECT}
# decimals that no float32 is, and some that are one
DECIMALS = ("0.1", "0.3", "-0.7", "0.25", "0.5", "1", "-0.30000001", "1e-3", "0.099999994")


def judge_module() -> Any:
    """The judge's module."""
    spec = importlib.util.spec_from_file_location("arena_judge", JUDGE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.read = lambda path: Path(path).read_bytes()
    return module


def judge(network: Path) -> Any:
    """The judge's module, its session made once and its files closed."""
    module = judge_module()
    session = module.session(network.read_bytes())
    module.session = lambda data: session
    return module


def near(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Values at most two float32 steps from the decimals: where the readings differ."""
    values = np.array([np.float32(DECIMALS[i]) for i in rng.integers(0, len(DECIMALS), size)])
    for _ in range(int(rng.integers(0, 3))):
        values = np.nextafter(values, np.float32(rng.choice([-2, 2])))
    return values.astype(np.float32)


def query_v1(rng: np.random.Generator) -> str:
    def decimal() -> str:
        return str(rng.choice(DECIMALS))

    def atom(name: str) -> str:
        return f"({rng.choice(['<=', '>=', '<', '>'])} {name} {decimal()})"

    def name() -> str:
        return str(rng.choice(["X_0", "X_1", "Y_0", "Y_1"]))

    lines = [f"(assert {atom(n)})" for n in ("X_0", "X_1")]
    lines += [f"(assert (or (and {atom(name())} {atom(name())}) {atom(name())}))"]
    lines += [f"(assert (<= (+ (* {decimal()} X_0) Y_1) {decimal()}))"]
    return models.declare(2, 2) + "\n".join(lines) + "\n"


def query_v2(rng: np.random.Generator) -> str:
    def decimal() -> str:
        return str(rng.choice([d for d in DECIMALS if "e" not in d and "." in d]))

    def atom(left: str, right: str) -> str:
        return f"({rng.choice(['<=', '>=', '<', '>', '==', '!='])} {left} {right})"

    return (
        "(vnnlib-version <2.0>)\n(declare-network N (declare-input X float32 [1,2]) (declare-output Y float32 [1,2]))\n"
        f"(assert {atom('X[0,0]', decimal())})\n"
        f"(assert (or {atom('X[0,1]', decimal())} {atom('Y[0,0]', 'X[0,0]')}))\n"
        f"(assert {atom(f'(- Y[0,0] (* {decimal()} X[0,1]) {decimal()})', decimal())})\n"
    )


def query_of_networks(rng: np.random.Generator) -> str:
    """Two copies of one network, and a third network. Of hidden tensors the judge knows nothing."""

    def decimal() -> str:
        return str(rng.choice([d for d in DECIMALS if "e" not in d and "." in d]))

    def atom(left: str, right: str) -> str:
        return f"({rng.choice(['<=', '>=', '<', '>', '==', '!='])} {left} {right})"

    return (
        VERSION
        + network("f")
        + network("g", "(equal-to f) ")
        + network("h")
        + asserts(
            atom("X_f[0,0]", rng.choice(["X_g[0,0]", decimal()])),
            f"(or {atom('X_h[0,0]', decimal())} {atom('Y_g[0,0]', 'X_h[0,0]')})",
            atom("(- Y_f[0,0] Y_g[0,0] Y_h[0,0])", decimal()),
        )
    )


def test_same_class_of_several_networks(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    files = [models.save(model, tmp_path / name) for model, name in ((bent(), "f"), (models.identity(), "h"))]
    paths = [files[0], files[0], files[1]]
    seen = dict.fromkeys((*WORDS, "refused"), 0)
    independent = judge_module()
    for _ in range(80):
        text = query_of_networks(rng)
        (tmp_path / "prop.vnnlib").write_text(text)
        query = parse(text)
        references = [made.reference for made in as_networks(paths, query)]
        inputs = [near(rng, 1) for _ in range(3)]
        verdict = Door(query, references).replay(inputs)
        outputs = [references[i].run([x])[0].ravel() for i, x in enumerate(inputs)]
        written = write_witness(query, Witness(inputs, outputs, WitnessClass.EXACT, ""))
        pairs = [(declared.name, str(path)) for declared, path in zip(query.networks, paths, strict=True)]
        word, why = independent.judge(str(tmp_path / "prop.vnnlib"), written, pairs)
        assert word in (*WORDS, "spec_not_violated", "correct_up_to_tolerance"), why
        assert (verdict.class_.value if isinstance(verdict, Witness) else "refused") == (
            word if word in WORDS else "refused"
        ), (text, why, verdict)
        seen[word if word in WORDS else "refused"] += 1
    assert min(seen["exact"], seen["refused"]) >= 10, seen


@pytest.mark.parametrize("version", [1, 2])
def test_same_class(version: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(version)
    path = models.save(models.affine([[1, 0], [1, 1]]), tmp_path / "net.onnx")
    independent = judge(path)
    reference = load(path).reference
    seen = dict.fromkeys((*WORDS, "refused"), 0)
    for _ in range(300):
        text = query_v1(rng) if version == 1 else query_v2(rng)
        (tmp_path / "prop.vnnlib").write_text(text)
        query = parse(text)
        x = near(rng, 2)
        verdict = Door(query, [reference]).replay([x])
        outputs = [output.ravel() for output in reference.run([x])]
        witness = Witness([x], outputs, WitnessClass.EXACT, "")
        word, why = independent.judge(str(tmp_path / "prop.vnnlib"), write_witness(query, witness), [(None, str(path))])
        assert word in (*WORDS, "spec_not_violated", "correct_up_to_tolerance"), why
        if word in WORDS:
            assert isinstance(verdict, Witness), (text, x.tolist(), why, verdict)
            assert verdict.class_ is WORDS[word], (text, x.tolist(), why, verdict.reason)
        else:
            assert isinstance(verdict, Rejection), (text, x.tolist(), word, why)
        seen[word if word in WORDS else "refused"] += 1
    assert min(seen.values()) >= 2, seen
