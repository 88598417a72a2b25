"""Files that a user names: what is no file is not waited for, what is too large is not kept."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from falsifier.campaign.plan import read_instances
from falsifier.errors import InputError
from falsifier.fuzz.hit import RECORD, read_record
from falsifier.fuzz.language import read_vocabulary
from falsifier.fuzz.objectives.words import read_words
from falsifier.handoff import configuration
from falsifier.handoff import handoff as handed
from falsifier.input_file import VARIABLE, read_bytes, read_text
from falsifier.network import load
from falsifier.numpy_file import numpy_file
from falsifier.query import read


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "No such file"),
    "folder": (lambda path: path.mkdir(), "it is a folder"),
    "pipe without a writer": (lambda path: os.mkfifo(path), "it is a pipe"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    "socket": (_socket, "it is a socket"),
    "link to itself": (lambda path: path.symlink_to(path), "symbolic links form a loop"),
    "two links in a circle": (_loop, "symbolic links form a loop"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "file as a folder": (lambda path: path.symlink_to(Path(__file__) / "x"), "Not a directory"),
}


def _read_numpy(path: Path) -> None:
    with numpy_file(path, "no array"):
        pass


def _record_in(path: Path) -> None:
    folder = path.with_name("hit")
    folder.mkdir()
    (folder / RECORD).symlink_to(path)
    read_record(folder)


READERS: dict[str, Callable[[Path], object]] = {
    "bytes": read_bytes,
    "text": read_text,
    "query": read,
    "network": load,
    "numpy": _read_numpy,
    "instances": read_instances,
    "vocabulary": read_vocabulary,
    "words": read_words,
    "configuration": configuration.read,
    "handoff": handed.read,
    "hit": _record_in,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_in_one_line(tmp_path: Path, reader: str, kind: str) -> None:
    path = tmp_path / "a file é"
    make, says = NO_FILES[kind]
    make(path)
    with pytest.raises(InputError, match=says) as error:
        READERS[reader](path)
    assert "\n" not in str(error.value)
    assert ("hit.json" if reader == "hit" else "a file é") in str(error.value)


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000])
@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"hit"}))
def test_names_that_no_file_has(reader: str, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        READERS[reader](Path(name))


def test_names_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 \xff")
    path.write_text("text")
    assert read_text(path) == "text"
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        read_text(path)


def _bomb(path: Path, megabytes: int = 300) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(megabytes):
            file.write(bytes(1 << 20))
    return path


def test_a_gzip_bomb_is_unpacked_up_to_the_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _bomb(tmp_path / "bomb.gz", 20)
    monkeypatch.setenv(VARIABLE, str(10 << 20))
    for reader in (read, load, read_bytes):
        with pytest.raises(InputError, match=rf"bomb\.gz: more than 10485760 bytes when unpacked.*{VARIABLE}"):
            reader(path)
    with pytest.raises(InputError, match="<bytes>: more than 10485760 bytes"):
        load(path.read_bytes())
    monkeypatch.setenv(VARIABLE, str(20 << 20))
    assert len(read_bytes(path)) == 20 << 20


def test_a_large_plain_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: no disk is used
    for reader in (read, load, read_text, _read_numpy, read_instances):
        with pytest.raises(InputError, match=r"large: more than \d+ bytes"):
            reader(path)


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "0", "9" * 30, "²"])
def test_the_limit_is_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=f"{VARIABLE}=.* is not a number of bytes"):
        read_text(tmp_path / "x")


def test_text_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(b"one\ntw\xf6\n")
    with pytest.raises(InputError, match=r"words:2: .*not text in UTF-8"):
        read_text(path)


def test_an_archive_of_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1 << 20))
    monkeypatch.setenv(VARIABLE, str(1 << 20))
    with pytest.raises(InputError, match=r"x\.npz: holds 83\d+ bytes unpacked, more than 1048576"):
        _read_numpy(path)


def test_an_array_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for count in (100, 10**13, 10**40):
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (count,)}
            np.lib.format.write_array_header_1_0(file, header)
        with pytest.raises(InputError, match=r"x\.npy: "):
            _read_numpy(path)


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path: Path) -> None:
    """Also of address space, which `ulimit -v` bounds: plain and packed."""
    (tmp_path / "a").write_bytes(b"a" * 3_000_000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a" * 3_000_000))
    script = (
        "import resource, sys, gzip\n"
        "from falsifier.input_file import read_bytes\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)\n"
        "print([len(read_bytes(path, 1 << 30)) for path in sys.argv[1:]])\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "a"), str(tmp_path / "a.gz")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[3000000, 3000000]\n"
