"""Files by their content, and the folder of a node that holds them: what is sent to another machine."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path

import onnx
import pytest
from campaigns import family

from falsifier.campaign.executors.node_folder import NodeFolder
from falsifier.campaign.executors.parcels import Parcels, moved
from falsifier.campaign.plan import QueryFile, arranged, read_instances
from falsifier.campaign.units import Unit, units_of
from falsifier.errors import InputError


def unit_of(folder: Path, count: int = 3) -> Unit:
    (unit,) = units_of(arranged(read_instances(family(folder, count))))
    return unit


def test_every_file_of_a_unit_is_sent_once_by_its_content(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    parcels = Parcels().of(unit)
    assert {path.name for path in parcels} == {"sums.onnx", "q0.vnnlib", "q1.vnnlib", "q2.vnnlib"}
    assert len({parcel.key for parcel in parcels.values()}) == 4
    for path, parcel in parcels.items():
        assert parcel.read() == {path.name: path.read_bytes()}
    other = tmp_path / "copy"
    other.mkdir()
    assert [p.key for p in Parcels().of(unit_of(other)).values()] == [p.key for p in parcels.values()]


def test_a_network_takes_the_files_of_its_tensors_along(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    path = unit.jobs[0].networks[0].path
    model = onnx.load_model(str(path))
    onnx.save_model(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    parcel = Parcels().of(unit)[path]
    assert set(parcel.files) == {"sums.onnx", "w.bin"}
    before = parcel.key
    (path.parent / "w.bin").write_bytes((path.parent / "w.bin").read_bytes()[::-1])
    assert Parcels().of(unit)[path].key != before


def test_files_outside_of_a_models_folder_stay_where_they_are(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    path = unit.jobs[0].networks[0].path
    onnx.save_model(onnx.load_model(str(path)), str(path), save_as_external_data=True, location="w", size_threshold=0)
    model = onnx.load_model(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../secret"
    path.write_bytes(model.SerializeToString())
    assert set(Parcels().of(unit)[path].files) == {"sums.onnx"}


def test_what_cannot_be_read_is_left_to_who_runs_it(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    (tmp_path / "vnnlib" / "q1.vnnlib").unlink()
    assert "q1.vnnlib" not in {path.name for path in Parcels().of(unit)}


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "hole"])
@pytest.mark.parametrize("name", ["onnx/sums.onnx", "vnnlib/q1.vnnlib"])
def test_what_is_no_file_is_neither_waited_for_nor_read(tmp_path: Path, name: str, kind: str) -> None:
    unit, path = unit_of(tmp_path), tmp_path / name
    whole = Parcels().of(unit)[path]
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 41)
    assert path.name not in {each.name for each in Parcels().of(unit)}
    if kind != "hole":  # it was a file when it was looked at
        with pytest.raises(InputError, match="cannot be read: it is a"):
            whole.read()


def test_a_unit_elsewhere(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    places = {path: Path("/node") / parcel.key / path.name for path, parcel in Parcels().of(unit).items()}
    there = moved(unit, places)
    for before, after in zip(unit.jobs, there.jobs, strict=True):
        assert after.networks[0].path == places[before.networks[0].path]
        assert isinstance(before.question, QueryFile)
        assert after.question == QueryFile(places[before.question.path])
        assert after.key == before.key


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_workers_of_a_node_share_a_private_folder_and_the_last_removes_it(temporary: Path) -> None:
    one, two = NodeFolder("c", "n"), NodeFolder("c", "n")
    assert one.path == two.path
    assert one.path.stat().st_mode & 0o777 == 0o700
    assert (one.seat(), two.seat()) == (0, 1)
    one.put("key", {"a.onnx": b"model", "sub/w.bin": b"weights"})
    two.put("key", {"a.onnx": b"model", "sub/w.bin": b"weights"})
    assert two.holds("key")
    assert not two.holds("other")
    assert (two.path / "key" / "sub" / "w.bin").read_bytes() == b"weights"
    assert not list(two.path.glob("part-*"))
    one.leave()
    three = NodeFolder("c", "n")
    assert three.seat() == 0
    assert three.holds("key")
    two.leave()
    three.leave()
    assert not list(temporary.glob("falsifier-*"))


def _die_there(folder: str) -> None:
    tempfile.tempdir = folder
    NodeFolder("killed", "n").put("key", {"a": b""})
    import os

    os._exit(1)


def test_what_a_killed_node_leaves_is_removed_by_the_next(temporary: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_die_there, args=(str(temporary),))
    child.start()
    child.join()
    assert list(temporary.glob("falsifier-node-killed-*"))
    used = NodeFolder("used", "n")
    NodeFolder("next", "n").leave()
    assert [path.name for path in temporary.glob("falsifier-*")] == ["falsifier-node-used-n"]
    used.leave()
    assert not list(temporary.glob("falsifier-*"))
