"""Odd models are refused in one line before anything is allocated, or run; external data stays in its folder."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import models
import numpy as np
import pytest
from command import ENVIRONMENT
from odd_models import BOMBS, REFUSED, RUN, UNSUPPORTED
from onnx import TensorProto

from falsifier.errors import InputError, UnsupportedError
from falsifier.network import load
from falsifier.network.vetting import vet


def _refused(path: Path, says: str, error: type[Exception] = InputError) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(error, match=says) as caught:
        load(path).reference  # noqa: B018 - made when it is asked for
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < len(str(path)) + 330
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    model, says = REFUSED[name]
    _refused(models.save(model, tmp_path / "net.onnx"), says)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_searched_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    model, says = UNSUPPORTED[name]
    _refused(models.save(model, tmp_path / "net.onnx"), says, UnsupportedError)


@pytest.mark.parametrize("name", RUN)
def test_odd_models_that_run(name: str) -> None:
    model, expected = RUN[name]
    assert np.array_equal(load(model).reference.run_flat(models.floats([1, 2])), expected, equal_nan=True)


_SEARCH = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from falsifier.cli import main
for words in (["doctor"], ["verify", "prop.vnnlib", "--timeout", "3", "--network"]):
    print(words[0], main([*words, sys.argv[1]]), flush=True)
"""


@pytest.mark.parametrize("name", sorted(BOMBS.keys() - {"endless Loop"}))
def test_more_memory_than_there_is(tmp_path: Path, name: str) -> None:
    """In an address space of 3 GiB: an answer or one line, no traceback."""
    model = BOMBS[name]
    models.save(model, tmp_path / "net.onnx")
    (tmp_path / "prop.vnnlib").write_text(
        models.declare(2, 1) + models.box([0, 0], [1, 1]) + "(assert (>= Y_0 1e30))\n"
    )
    words = [sys.executable, "-P", "-c", _SEARCH, "net.onnx"]
    done = subprocess.run(
        words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "verify " in done.stdout


def _external(folder: Path, location: str, count: int = 4) -> Path:
    """A model whose weights lie in a file of that name."""
    tensor = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[1, count])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * count))):
        tensor.external_data.add(key=key, value=value)
    model = models.chain([("Add", [tensor], {})], [1, count], [1, count])
    return models.save(model, folder / "net.onnx")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `inside` with weights, and some outside of it."""
    for name in ("inside/sub", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("inside/w", "inside/sub/w", "outside/w", "inside2"):
        (tmp_path / name).write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return tmp_path / "inside"


@pytest.mark.parametrize("location", ["w", "sub/w", "sub/../w", "./w", "link"])
def test_external_data_in_the_folder(folder: Path, location: str) -> None:
    (folder / "link").symlink_to("sub/w")
    x = np.zeros(4, np.float32)
    assert load(_external(folder, location)).reference.run_flat(x).tolist() == [0, 1, 2, 3]


OUTSIDE: dict[str, tuple[Callable[[Path], object], str]] = {
    "../outside/w": (lambda path: None, "outside of the model's folder"),
    "../inside2": (lambda path: None, "outside of the model's folder"),
    "sub/../../outside/w": (lambda path: None, "outside of the model's folder"),
    "/etc/hostname": (lambda path: None, "outside of the model's folder"),
    "link": (lambda path: path.symlink_to("../outside/w"), "outside of the model's folder"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "outside of the model's folder"),
    "pipe": (lambda path: os.mkfifo(path), "it is a pipe"),
    "missing": (
        lambda path: None,
        r"net\.onnx: initializer '\w+' lies in 'missing', which is not there: put that file",
    ),
    "sub": (lambda path: None, "it is a folder"),
    "loop": (lambda path: path.symlink_to("loop"), "symbolic links form a loop"),
}


@pytest.mark.parametrize("location", OUTSIDE)
def test_external_data_elsewhere_is_refused(folder: Path, location: str) -> None:
    make, says = OUTSIDE[location]
    make(folder / location)
    path = _external(folder, location)
    for given in (path, path.read_bytes()):
        with pytest.raises(
            InputError, match=says if isinstance(given, Path) else "give the model by its path"
        ) as error:
            load(given).reference  # noqa: B018
        assert "\n" not in str(error.value)


def test_external_data_that_is_too_short(folder: Path) -> None:
    _refused(_external(folder, "w", 10**9), "claims 1000000000 elements, its data has 16 bytes")


def test_a_model_that_is_a_link_keeps_its_data(folder: Path, tmp_path: Path) -> None:
    """As in caches of downloads, where both are links into a folder of contents."""
    path = _external(folder, "w")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "net.onnx").symlink_to(path)
    (tmp_path / "shown" / "w").symlink_to(folder / "w")
    vet(str(tmp_path / "shown" / "net.onnx"), None, "net.onnx")


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_cut_off_models_are_left_to_onnxruntime(tmp_path: Path, size: int) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(models.affine([[1, 2]]).SerializeToString()[:size])
    vet(str(path), None, "net.onnx")
    _refused(path, "cannot load this model")


def test_a_length_beyond_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x08\x3a\xff\xff\xff\xff\x07abcdef")
    _refused(path, "not an ONNX protobuf")


def test_names_of_any_bytes(tmp_path: Path) -> None:
    path = models.save(models.affine([[1, 2]]), tmp_path / os.fsdecode(b"caf\xe9 \xff.onnx"))
    assert load(path).reference.run_flat(models.floats([1, 2])).tolist() == [5]
    assert load(path).engine().name == "onnxruntime"
