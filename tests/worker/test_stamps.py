"""Which files an instance was read from, and whether they are still those."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import models
import numpy as np
import onnx
import pytest

from falsifier.network.external_files import with_external_data
from falsifier.worker.stamps import stamps, unchanged


@pytest.fixture
def external(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save_model(
        models.affine(np.ones((8, 64))),
        str(path),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return path


def test_files_of_tensors_belong_to_the_model(external: Path) -> None:
    assert list(with_external_data(external)) == [external, external.with_name("weights.bin")]


def test_a_model_of_one_file(tmp_path: Path) -> None:
    plain = models.save(models.identity(), tmp_path / "net.onnx")
    packed = tmp_path / "net.onnx.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed, tmp_path / "missing.onnx"):
        assert list(with_external_data(path)) == [path]


@pytest.mark.parametrize("name", ["net.onnx", "weights.bin"])
@pytest.mark.parametrize("change", ["written", "replaced", "removed"])
def test_a_change_is_noticed(external: Path, name: str, change: str) -> None:
    before = stamps(with_external_data(external))
    assert unchanged(before)
    file = external.with_name(name)
    data = file.read_bytes()
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    match change:
        case "written":
            file.write_bytes(data[:-1] + b"\x01")
        case "replaced":  # by the same, as old and as large
            other = file.with_name("other")
            other.write_bytes(data)
            os.utime(other, ns=times)
            os.replace(other, file)
        case _:
            file.unlink()
    assert not unchanged(before)
