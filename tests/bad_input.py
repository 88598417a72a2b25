"""Instances that cannot be used, each for one reason: what every entrance has to refuse in one clear line."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import models
from onnx import TensorProto


def _truncated(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes())[:-12])


def _unknown_domain(path: Path) -> None:
    step: models.Step = ("Mystery", [], {"domain": "com.example"})
    models.save(models.chain([step], [1, 1], [1, 1], domains=[("com.example", 1)]), path)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _with_weight(path: Path, weight: TensorProto) -> None:
    models.save(models.chain([("Mul", [weight], {})], [1, 1], [1, 1]), path)


def _external(path: Path, location: str) -> None:
    weight = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    _with_weight(path, weight)


def _claiming(path: Path) -> None:
    _with_weight(path, TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[10**12], raw_data=bytes(4)))


SPOILERS: dict[str, Callable[[Path, Path], object]] = {
    "missing network": lambda net, prop: net.unlink(),
    "missing query": lambda net, prop: prop.unlink(),
    "truncated gzip query": lambda net, prop: _truncated(prop),
    "truncated gzip network": lambda net, prop: _truncated(net),
    "not VNN-LIB": lambda net, prop: prop.write_text("this is a letter, not a property\n"),
    "empty query": lambda net, prop: prop.write_text(""),
    "binary query": lambda net, prop: prop.write_bytes(bytes(range(256)) * 4),
    "bracket missing": lambda net, prop: prop.write_text(prop.read_text().rstrip().removesuffix(")")),
    "not a protobuf": lambda net, prop: net.write_bytes(b"\x00\xff not a model" * 10),
    "truncated protobuf": lambda net, prop: net.write_bytes(net.read_bytes()[:-20]),
    "empty network": lambda net, prop: net.write_bytes(b""),
    "too many inputs": lambda net, prop: prop.write_text(
        models.declare(2, 1) + models.box([0, 0], [1, 1]) + "(assert (>= Y_0 0.25))\n"
    ),
    "too many outputs": lambda net, prop: prop.write_text(
        models.declare(1, 2) + models.box([0], [1]) + "(assert (>= Y_1 0.25))\n"
    ),
    "unbounded input": lambda net, prop: prop.write_text(
        models.declare(1, 1) + "(assert (>= X_0 0))\n(assert (>= Y_0 0.25))\n"
    ),
    "unknown operator domain": lambda net, prop: _unknown_domain(net),
    "pipe as query": lambda net, prop: _pipe(prop),
    "pipe as network": lambda net, prop: _pipe(net),
    "link to itself": lambda net, prop: _loop(net),
    "external data elsewhere": lambda net, prop: _external(net, "/etc/hostname"),
    "initializer that claims": lambda net, prop: _claiming(net),
    "two outputs for a 1.0 query": lambda net, prop: models.save(models.two_outputs(), net),
}
BAD = tuple(SPOILERS)


def spoil(name: str, folder: Path) -> tuple[str, str]:
    """Spoil net.onnx and prop.vnnlib, which ask for y >= 0.25 with y = x on [0, 1]; returns their names."""
    SPOILERS[name](folder / "net.onnx", folder / "prop.vnnlib")
    return "net.onnx", "prop.vnnlib"
