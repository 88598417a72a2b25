"""Both engines agree with the original, and with one another about gradients, on real networks (if they are there)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from agreement import ARENA, Row, build, compare, deviation, gradient_difference, networks, query_box, widened

from falsifier.network import load
from falsifier.network.torch_engine import TorchEngine

PLANTED = ARENA.parent / "planted"
# parts of an output's spread: where outputs are differences of large numbers any float32 engine reaches 2e-2
OUTPUTS = 3e-2
GRADIENTS = 1e-3


def _smallest_of_each_family() -> list[tuple[str, Path, Path]]:
    """One network per family and folder: the smallest file."""
    chosen: dict[str, tuple[str, Path, Path]] = {}
    for folder in (ARENA, PLANTED):
        if (folder / "instances.csv").exists():
            for family, path, query in networks(folder):
                known = chosen.get(family)
                if known is None or path.stat().st_size < known[1].stat().st_size:
                    chosen[family] = (family, path, query)
    return list(chosen.values())


def _everything() -> list[tuple[str, Path, Path]]:
    return [n for folder in (ARENA, PLANTED) if (folder / "instances.csv").exists() for n in networks(folder)]


SAMPLE = _smallest_of_each_family()


def test_there_are_networks_to_compare() -> None:
    if not SAMPLE:
        pytest.skip(f"{ARENA} is not there")
    assert len(SAMPLE) > 20


@pytest.mark.parametrize(("family", "path", "query"), SAMPLE, ids=[family for family, _, _ in SAMPLE])
def test_a_network_of_each_family(family: str, path: Path, query: Path) -> None:
    _agrees(compare(family, path, query))


@pytest.mark.parametrize(("family", "path", "query"), SAMPLE, ids=[family for family, _, _ in SAMPLE])
def test_torch_waits_for_no_device_on_a_network_of_each_family(family: str, path: Path, query: Path) -> None:
    # a meta tensor has no numbers to wait for
    engine = TorchEngine(load(path).lowered, "meta")
    x, seed = (engine.asarray(np.zeros((3, size))) for size in (engine.n, engine.m))
    outputs, gradient = engine.vjp(x, seed, seed[:, 0])
    assert (outputs.shape, gradient.shape) == ((3, engine.m), (3, engine.n))


@pytest.mark.whole
def test_every_network() -> None:
    for family, path, query in _everything():
        _agrees(compare(family, path, query))


def _agrees(row: Row) -> None:
    if row.onnxruntime is None or row.torch is None or row.gradients is None:
        assert "depend on the input" in row.note
        assert row.engine == "single-sample"
        return
    assert row.onnxruntime < OUTPUTS, row
    assert row.torch < OUTPUTS, row
    assert row.gradients < GRADIENTS, row


def test_a_deviation_is_a_part_of_the_spread() -> None:
    expected = np.array([[0.0, 100.0], [2.0, 100.0]])
    got = expected + np.array([[0.0, 0.0], [0.5, 0.0]])
    assert deviation(got, expected) == 0.25
    constant = np.array([[0, 0], [0, 1.0]])  # in the output that does not vary
    assert deviation(expected + 1e-4 * constant, expected) == pytest.approx(1.0)
    assert deviation(expected + 3.2 * constant, expected, noise=np.array([0, 0.1])) == pytest.approx(1.0)
    assert deviation(expected, expected) == 0


def test_a_gradient_difference_is_a_part_of_the_lane() -> None:
    a = np.array([[4.0, 0.0], [0.0, 0.0]])
    b = np.array([[4.0, 1.0], [0.0, 0.0]])
    assert gradient_difference(a, b) == 0.25
    assert gradient_difference(a, a) == 0
    # one lane of four may lie on a kink
    assert gradient_difference(np.tile(a[:1], (4, 1)), np.concatenate([np.tile(a[:1], (3, 1)), b[:1]])) == 0


def test_a_tight_box_is_widened_and_a_wide_one_is_kept() -> None:
    lower, upper = widened((np.array([10.0, -1.0]), np.array([10.0, 1.0])))
    np.testing.assert_allclose(lower, [9.5, -1.0])
    np.testing.assert_allclose(upper, [10.5, 1.0])


def test_the_box_of_a_query_covers_its_disjuncts(tmp_path: Path) -> None:
    query = tmp_path / "q.vnnlib"
    query.write_text(
        "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
        "(assert (or (and (>= X_0 0)(<= X_0 1)(>= X_1 0)(<= X_1 1)(>= Y_0 0))"
        "(and (>= X_0 3)(<= X_0 4)(>= X_1 -1)(<= X_1 0)(>= Y_0 0))))"
    )
    box = query_box(query, 2)
    assert box is not None
    np.testing.assert_allclose(box[0], [0, -1])
    np.testing.assert_allclose(box[1], [4, 1])
    assert query_box(query, 3) is None


def test_both_engines_are_what_the_bundled_example_computes() -> None:
    network = load(Path(__file__).resolve().parents[2] / "examples" / "digits.onnx")
    x = np.random.default_rng(0).random((7, network.reference.n)).astype(np.float32)
    expected = np.stack([network.reference.run_flat(row) for row in x]).astype(np.float64)
    seed = np.random.default_rng(1).normal(size=expected.shape)
    gradients = []
    for name in ("onnxruntime", "torch"):
        engine = build(network, name)
        assert deviation(np.asarray(engine.outputs(engine.asarray(x))), expected) < 1e-4
        gradients.append(np.asarray(engine.vjp(engine.asarray(x), engine.asarray(seed))[1]))
    assert gradient_difference(*gradients) < 1e-4
