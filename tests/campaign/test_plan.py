"""Plans: the competition's instances.csv as it comes, and rows that cost only themselves."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from campaigns import family, network, query

from falsifier.campaign.plan import arranged, by_network, read_instances
from falsifier.errors import InputError


def test_rows_as_in_the_competition(tmp_path: Path) -> None:
    path = family(tmp_path / "bench" / "1.0", 3, "12.5")
    jobs = arranged(read_instances(path))
    assert [job.fault for job in jobs] == ["", "", ""]
    assert {job.category for job in jobs} == {"bench"}  # the folder above 1.0
    assert [job.limit for job in jobs] == [12.5] * 3
    assert jobs[1].onnx == "onnx/sums.onnx"
    assert jobs[1].vnnlib == "./vnnlib/q1.vnnlib"
    assert [job.stem for job in jobs] == ["sums_q0", "sums_q1", "sums_q2"]
    assert by_network(jobs) == [[0, 1, 2]]


def test_timeout_is_the_most_that_a_row_gets(tmp_path: Path) -> None:
    path = family(tmp_path, 1, "30")
    path.write_text(path.read_text() + "onnx/sums.onnx,vnnlib/q0.vnnlib\n")
    query(tmp_path, "vnnlib/q1.vnnlib", 0, [0] * 3, [1] * 3)
    path.write_text("ONNX,vnnlib,timeout\n\nonnx/sums.onnx,vnnlib/q0.vnnlib,30\nonnx/sums.onnx,vnnlib/q1.vnnlib\n")
    assert [job.limit for job in read_instances(path)] == [30, 60]
    assert [job.limit for job in read_instances(path, timeout=5)] == [5, 5]
    assert [job.limit for job in read_instances(path, timeout=100)] == [30, 100]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("onnx/none.onnx,vnnlib/q0.vnnlib,5", "network onnx/none.onnx does not exist"),
        ("onnx/sums.onnx,vnnlib/none.vnnlib,5", "query vnnlib/none.vnnlib does not exist"),
        ("onnx/sums.onnx,vnnlib/q0.vnnlib,soon", "'soon' is not a positive number"),
        ("onnx/sums.onnx,vnnlib/q0.vnnlib,-1", "'-1' is not a positive number"),
        ("onnx/sums.onnx,vnnlib/q0.vnnlib,nan", "'nan' is not a positive number"),
        ("onnx/sums.onnx", "1 columns"),
        ("onnx/sums.onnx,,5", "3 columns"),
        ("a,b,c,d,e", "5 columns"),
        ("./onnx/sums.onnx,vnnlib/../vnnlib/q1.vnnlib,5", "same networks and query as in line 2"),
        ("[('f', 'onnx/sums.onnx',vnnlib/q0.vnnlib,5", "write a list"),
    ],
)
def test_a_bad_row_costs_itself_alone(tmp_path: Path, row: str, says: str) -> None:
    path = family(tmp_path, 2)
    path.write_text(path.read_text() + row + "\n")
    jobs = arranged(read_instances(path))
    assert [bool(job.fault) for job in jobs] == [False, False, True]
    assert jobs[2].fault.startswith(f"{path}:3: ")
    assert says in jobs[2].fault
    assert "\n" not in jobs[2].fault
    assert by_network(jobs) == [[0, 1]]


def test_files_may_be_packed(tmp_path: Path) -> None:
    path = family(tmp_path, 1)
    for name in ("onnx/sums.onnx", "vnnlib/q0.vnnlib"):
        plain = tmp_path / name
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    (job,) = arranged(read_instances(path))
    assert not job.fault
    assert job.stem == "sums_q0"


def test_equal_networks_go_together_wherever_they_lie(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        network(tmp_path, f"{folder}/sums.onnx")
        query(tmp_path, f"{folder}/q.vnnlib", 0, [0] * 3, [1] * 3)
    (tmp_path / "instances.csv").write_text("a/sums.onnx,a/q.vnnlib,5\nb/sums.onnx,b/q.vnnlib,5\n")
    jobs = arranged(read_instances(tmp_path / "instances.csv"))
    assert by_network(jobs) == [[0, 1]]
    assert [job.stem for job in jobs] == ["a_sums_a_q", "b_sums_b_q"]  # each witness has a file of its own


def test_a_network_whose_tensors_lie_beside_it_is_not_taken_for_another(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        query(tmp_path, f"{folder}/q.vnnlib", 0, [0] * 3, [1] * 3)
        (tmp_path / folder / "net.onnx").write_bytes(b"..location..weights.bin..")
    (tmp_path / "instances.csv").write_text("a/net.onnx,a/q.vnnlib,5\nb/net.onnx,b/q.vnnlib,5\n")
    assert by_network(arranged(read_instances(tmp_path / "instances.csv"))) == [[0], [1]]


def test_several_networks_in_one_row(tmp_path: Path) -> None:
    family(tmp_path, 1)
    for quote in ('"', ""):
        row = f"{quote}[('f', 'onnx/sums.onnx'), ('g', './onnx/sums.onnx')]{quote},vnnlib/q0.vnnlib,5\n"
        (tmp_path / "two.csv").write_text(row)
        (job,) = arranged(read_instances(tmp_path / "two.csv", category="pairs"))
        assert not job.fault
        assert [n.name for n in job.networks] == ["f", "g"]
        assert (job.category, job.stem) == ("pairs", "sums_sums_q0")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00,\x01"])
def test_a_table_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "instances.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="instances"):
        read_instances(path)
