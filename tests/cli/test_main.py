"""The command's frame: names, versions, help, errors in one line, and what is imported when."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command import falsifier

import falsifier as package
from falsifier.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]


def test_name_and_version() -> None:
    assert falsifier("--name").stdout == "falsifier\n"
    assert falsifier("--version").stdout == f"{package.__version__}\n"


def test_version_is_the_distribution_s() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == package.__version__


def imported(program: str) -> set[str]:
    """Top-level modules that a program imports."""
    code = f"{program}\nimport sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


def test_names_need_no_numpy() -> None:
    assert not imported("from falsifier.cli import main; main(['--version'])") & {"numpy", "argparse", "onnxruntime"}


def test_the_package_imports_nothing_heavy() -> None:
    assert not imported("import falsifier") & {"numpy", "onnx", "onnxruntime", "torch", "scipy"}


def test_the_pipeline_imports_nothing_heavy() -> None:
    heavy = {"onnx", "onnxruntime", "torch", "scipy", "vnnlib", "click", "rich", "array_api_compat", "gzip"}
    assert not imported("import falsifier.falsify") & heavy


def test_public_names() -> None:
    import falsifier.falsify as module_or_function
    from falsifier.falsify import falsify

    assert package.falsify is falsify
    assert module_or_function is falsify  # type: ignore[comparison-overlap]
    assert callable(package.falsify)
    for name in dir(package):
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize(
    "arguments", [[], ["prove"], ["verify"], ["supports"], ["supports", "--all"], ["verify", "--x"]]
)
def test_unusable_arguments(arguments: list[str]) -> None:
    done = falsifier(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr
    if arguments:
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("package", "options", "status", "remedy"),
    [
        ("onnxruntime", [], 1, "falsifier: onnxruntime is not installed: pip install 'vnn-falsifier[cpu]'"),
        ("torch", ["--device", "cuda"], 2, "falsifier: device 'cuda' needs torch, which comes with the extra [torch]"),
    ],
)
def test_a_package_that_was_left_out(
    package: str,
    options: list[str],
    status: int,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails then
    examples = ROOT / "examples"
    query, network = str(examples / "digits_violated.vnnlib"), str(examples / "digits.onnx")
    assert main(["verify", query, "--network", network, *options]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(remedy)
    assert err.count("\n") == 1


def test_a_working_folder_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    examples = ROOT / "examples"
    words = ["verify", str(examples / "digits_violated.vnnlib"), "--network", str(examples / "digits.onnx")]
    assert main(words) == 0  # nothing relative was named
    assert capsys.readouterr().out.startswith("sat\n")
    assert main([*words, "--portfolio=mine:stages"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "was removed" in err


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help(command: str) -> None:
    done = falsifier(command, "--help")
    assert done.returncode == 0
    assert f"usage: falsifier {command}" in done.stdout
    assert command in falsifier("--help").stdout
