"""The results file holds a whole answer at every moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import troupe
from command import ENVIRONMENT

from falsifier.cli import main
from falsifier.cli.results_file import ResultsFile
from falsifier.errors import InputError


def test_provisional_then_final(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("sat\n((X_0 0.0))\n")
    results = ResultsFile(str(path))
    assert path.read_text() == "unknown\n"
    results.write("unsat\n")
    assert path.read_text() == "unsat\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_an_error_never_replaces_an_answer(tmp_path: Path) -> None:
    results = ResultsFile(str(tmp_path / "out.txt"))
    results.fail()
    assert (tmp_path / "out.txt").read_text() == "error\n"
    results.write("sat\n")
    results.fail()
    assert (tmp_path / "out.txt").read_text() == "sat\n"


def test_replaces_rather_than_rewrites(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    results = ResultsFile(str(path))
    with path.open() as reader:
        results.write("timeout\n")
        assert reader.read() == "unknown\n"  # who reads at this moment sees a whole answer


@pytest.mark.parametrize("name", ["missing/out.txt", "file/out.txt", "folder"])
def test_unwritable(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=name):
        ResultsFile(str(tmp_path / name))
    assert sorted(tmp_path.iterdir()) == before


def test_devices_and_links_stay(tmp_path: Path) -> None:
    ResultsFile("/dev/null").write("unsat\n")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    ResultsFile(str(tmp_path / "link")).write("unsat\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "unsat\n"


def test_a_stream_gets_the_final_answer_alone(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        os.write(1, b"said before\n")
        ResultsFile(name).write("unsat\n")
        assert capfd.readouterr().out == "said before\nunsat\n"
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(file, b"a log\n")
        ResultsFile(f"/dev/fd/{file}").write("sat\n")
        os.write(file, b"more\n")
    finally:
        os.close(file)
    assert (tmp_path / "log").read_text() == "a log\nsat\nmore\n"


def test_on_a_full_disk_an_answer_takes_the_room_that_the_file_has(small_disk: Path) -> None:
    path = small_disk / "out.txt"
    path.write_text("sat\n((X_0 0.0))\n")
    (small_disk / "filling").write_bytes(bytes(60 << 10))  # not a page is left
    results = ResultsFile(str(path))
    assert path.read_text() == "unknown\n"
    for text in ("sat\n" + "(X_0 0.0)" * 400, "sat\n" + "(X_0 0.0)" * 4000):
        if len(text) <= 4096:
            results.write(text)
            assert path.read_text() == text
        else:
            with pytest.raises(InputError, match="No space left on device"):
                results.write(text)
            assert path.read_text().startswith("sat\n(X_0 0.0)(X_0")  # what was there before stays
    results.write("timeout\n")
    assert path.read_text() == "timeout\n"
    assert sorted(p.name for p in small_disk.iterdir()) == ["filling", "out.txt"]


def test_a_pipe_that_nobody_reads_yet_holds_up_nothing_else(tmp_path: Path) -> None:
    network, query = troupe.instance(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "falsifier", "verify", query, f"--network={network}", "--results=pipe"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]
    written = (tmp_path / "pipe").read_text()
    process.communicate(timeout=troupe.PATIENCE)
    assert said[0] == "sat\n"
    assert written == "".join(said)
    assert process.returncode == 0


@pytest.mark.parametrize("option", ["--results", "--json"])
@pytest.mark.parametrize("name", ["prop.vnnlib", "net.onnx", "link"])
def test_files_of_the_instance_are_not_written_over(
    tmp_path: Path, option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    network, query = troupe.instance(tmp_path)
    (tmp_path / "link").symlink_to(network)
    before = network.read_bytes(), query.read_bytes()
    assert main(["verify", str(query), f"--network=N={network}", f"{option}={tmp_path / name}"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{option} {tmp_path / name}: a file of the instance" in err
    assert (network.read_bytes(), query.read_bytes()) == before
