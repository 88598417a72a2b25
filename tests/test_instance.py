"""What stands in the ONNX position and in the time limit of a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from falsifier.errors import InputError
from falsifier.instance import NamedNetwork, parse_network, parse_networks, parse_seconds


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("a.onnx", [(None, "a.onnx")]),
        ("./b c/a.onnx\r\n", [(None, "./b c/a.onnx")]),
        ("N=a.onnx", [("N", "a.onnx")]),
        ("some/dir=x/a.onnx", [(None, "some/dir=x/a.onnx")]),
        ("[('f', './a.onnx'), ('g', 'b.onnx')]", [("f", "./a.onnx"), ("g", "b.onnx")]),
        ('[["f", "a.onnx"]]\r', [("f", "a.onnx")]),
    ],
)
def test_networks(argument: str, expected: list[tuple[str | None, str]]) -> None:
    assert parse_network(argument) == tuple(NamedNetwork(name, Path(path)) for name, path in expected)


@pytest.mark.parametrize("name", ["[a]=b.onnx", "N=a.onnx", "[('f', 'x')]"])
def test_a_file_of_that_name_wins(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).touch()
    assert parse_network(name) == (NamedNetwork(None, Path(name)),)


@pytest.mark.parametrize("argument", ["", " ", "[", "[]", "[1, 2]", "['a.onnx']", "[('a',)]", "[(1, 'a.onnx')]", "[x]"])
def test_unreadable_networks(argument: str) -> None:
    with pytest.raises(InputError):
        parse_network(argument)


@pytest.mark.parametrize("arguments", [["a.onnx", "b.onnx"], ["N=a.onnx", "N=b.onnx"]])
def test_networks_given_twice(arguments: list[str]) -> None:
    with pytest.raises(InputError, match="2 times"):
        parse_networks(arguments)


@pytest.mark.parametrize(("text", "seconds"), [("20", 20), ("0.2", 0.2), (" 5.0\r\n", 5), ("1e2", 100)])
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "nan", "1,5"])
def test_not_seconds(text: str) -> None:
    with pytest.raises(InputError, match="time limit"):
        parse_seconds(text)
