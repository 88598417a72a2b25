"""Planted instances: what is written is read, holds at the planted point, and is the same for the same rng seed."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the networks are trained with torch")

from planted import make
from planted_shapes import SHAPES, Shape

from falsifier.network import load
from falsifier.query import read
from falsifier.witness.confirm import Door
from falsifier.witness.outcome import Witness, WitnessClass

NAMES = ("or9_corner", "band", "and3_strict", "and3_signs", "and3_whole", "and4_clipped", "row1_vit")


def hardly_trained(folder: Path) -> Namespace:
    return Namespace(folder=folder, rounds=1, steps=20, hunts=1, evaluations=500)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.name in NAMES], ids=lambda shape: shape.name)
def test_the_door_confirms_what_was_planted(shape: Shape, tmp_path: Path) -> None:
    figures = make(shape, 0, hardly_trained(tmp_path))
    network = tmp_path / "network" / f"{shape.name}_s0.onnx"
    query = tmp_path / "property" / f"{shape.name}_s0.vnnlib"
    assert network.exists() == figures["kept"]
    if figures["kept"]:
        door = Door(read(query), [load(network).reference], WitnessClass.EXACT)
        assert isinstance(door.confirm(np.array(figures["witness"], dtype=np.float32)), Witness)
    if shape.name in ("and3_strict", "and3_whole"):
        assert figures["margin"] == pytest.approx(shape.margin, rel=0.5)


def test_the_same_rng_seed_gives_the_same_instance(tmp_path: Path) -> None:
    files = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        make(SHAPES[1], 5, hardly_trained(folder))
        files.append([path.read_bytes() for path in sorted(folder.rglob("*.*"))])
    assert files[0] == files[1]
    assert len(files[0]) == 2
