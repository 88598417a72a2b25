"""Files that are written: whole or not at all, also where the disk is full, closed, or gone."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from falsifier.errors import InputError
from falsifier.output_file import write


def test_a_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "out.txt"
    write(path, "old\n")
    with pytest.raises(InputError, match=r"out\.txt: cannot be written \(No space left on device\)"):
        write(path, "new" * 10000)
    assert path.read_text() == "old\n"
    assert sorted(os.listdir(small_disk)) == ["filling", "out.txt"]


def test_a_disk_without_a_byte_left(small_disk: Path) -> None:
    (small_disk / "rest").write_bytes(bytes(4 << 10))
    with pytest.raises(InputError, match="No space left"):
        write(small_disk / "out.txt", "new" * 10000)
    assert not (small_disk / "out.txt").exists()


def test_a_closed_disk(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(InputError, match=r"out\.txt: cannot be written \(Read-only file system\)"):
        write(small_disk / "out.txt", "new")


@pytest.mark.parametrize("name", ["folder", "loop", "nowhere/out.txt", "file/out.txt", "x" * 300, "nul\0"])
def test_places_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written") as error:
        write(tmp_path / name, "text")
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "loop"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out.txt").symlink_to("real/out.txt")
    write(tmp_path / "out.txt", "text")
    assert (tmp_path / "out.txt").is_symlink()
    assert (tmp_path / "real" / "out.txt").read_text() == "text"


def test_names_of_any_bytes_and_any_length(tmp_path: Path) -> None:
    for name in (os.fsdecode(b"caf\xe9 \xff"), "n" * 255, "ü" * 127):
        write(tmp_path / name, "text \udcff")
        assert (tmp_path / name).read_bytes() == b"text \xff"
    assert len(os.listdir(tmp_path)) == 3


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    write("/dev/null", "text")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


def test_a_file_that_may_be_written_but_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:  # as the kernel does for a file of another user in a folder with the sticky bit
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "out.txt").write_text("no_result_in_file, and more\n")
    write(tmp_path / "out.txt", "unknown\n")
    assert (tmp_path / "out.txt").read_text() == "unknown\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
