"""What a file holds decides whether an answer about it still counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import models
import numpy as np
import onnx

from falsifier.campaign.contents import content_of


def external(folder: Path) -> Path:
    """A network whose weights lie in a file beside it."""
    folder.mkdir()
    plain = onnx.load(models.save(models.affine(np.ones((8, 64)).tolist()), folder / "plain.onnx"))
    path = folder / "net.onnx"
    onnx.save(plain, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (folder / "weights.bin").stat().st_size > 0
    return path


def test_weights_beside_a_network_are_a_part_of_it(tmp_path: Path) -> None:
    path = external(tmp_path / "a")
    before = content_of(path)
    assert before == content_of(path)
    assert before.folder == str(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert content_of(tmp_path / "b" / "net.onnx").digest == before.digest
    weights = bytearray((tmp_path / "a" / "weights.bin").read_bytes())
    weights[0] ^= 1
    (tmp_path / "a" / "weights.bin").write_bytes(weights)
    assert content_of(path).digest != before.digest
    (tmp_path / "a" / "weights.bin").unlink()
    assert content_of(path).digest not in ("", before.digest)


def test_weights_inside_of_a_branch_are_a_part_of_it_too(tmp_path: Path) -> None:
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    held = helper.make_tensor("held", float32, [4], np.ones(4, np.float32).tobytes(), raw=True)
    onnx.external_data_helper.set_external_data(held, "inner.bin")
    (tmp_path / "inner.bin").write_bytes(held.raw_data)
    held.ClearField("raw_data")
    constant = helper.make_node("Constant", [], ["c"], value=held)
    out = helper.make_tensor_value_info("c", float32, [4])
    branch = helper.make_graph([constant], "branch", [], [out])
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", float32, [4])
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([node], "outer", [x], [y])).SerializeToString())
    before = content_of(path)
    (tmp_path / "inner.bin").write_bytes(np.zeros(4, np.float32).tobytes())
    assert content_of(path).digest != before.digest


def test_other_files_have_other_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    models.save(models.affine([[1.0]]), one)
    models.save(models.affine([[2.0]]), two)
    assert content_of(one).digest != content_of(two).digest
    assert content_of(one).folder == ""
    shutil.copy(one, two)
    assert content_of(one) == content_of(two)
