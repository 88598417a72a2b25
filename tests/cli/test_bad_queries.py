"""Every mistake of the list in one clear line, exit status 2, and the right word in a results file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bad_queries import MISTAKES, ONE, TWO, UNKNOWN, models_for

from falsifier.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    models_for(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def networks(given: tuple[str, ...]) -> list[str]:
    return [word for item in given for word in ("--network", item)]


@pytest.mark.parametrize("name", MISTAKES)
def test_one_line(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistake = MISTAKES[name]
    (folder / "prop.vnnlib").write_text(mistake.text)
    status = main(["verify", "prop.vnnlib", *networks(mistake.given)])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert err.startswith("falsifier: ")
    assert "prop.vnnlib" in err or ".onnx" in err or "network f" in err
    assert re.search(mistake.said, err), err


@pytest.mark.parametrize("name", MISTAKES)
def test_the_results_file(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistake = MISTAKES[name]
    (folder / "prop.vnnlib").write_text(mistake.text)
    status = main(["verify", "prop.vnnlib", *networks(mistake.given), "--results", "out.txt"])
    assert (folder / "out.txt").read_text() == ("unknown\n" if name in UNKNOWN else "error\n")
    assert status == (0 if name in UNKNOWN else 2)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("text", "given"), [(ONE, ("f=net.onnx",)), (ONE, ("net.onnx",)), (TWO, ("f=net.onnx",))])
def test_without_a_mistake(text: str, given: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "prop.vnnlib").write_text(text)
    assert main(["verify", "prop.vnnlib", *networks(given)]) == 0
    assert capsys.readouterr().out.startswith("sat\n")
