"""Commands whose standard streams are closed, or take nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
QUERY = ("examples/digits_violated.vnnlib", "--network", "examples/digits.onnx", "--timeout", "100")


def shell(words: tuple[str, ...], redirections: str) -> subprocess.CompletedProcess[str]:
    """`falsifier WORDS` with redirections of a shell."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirections}', "bash", sys.executable, "-P", "-m", "falsifier", *words],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_nothing(closed: str, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    done = shell(("verify", *QUERY, "--results", str(results)), closed)
    assert done.returncode == 0
    assert results.read_text().startswith("sat\n((X_0 ")  # and nothing that was printed
    assert "Traceback" not in done.stderr
    assert done.stdout == ("" if ">&- " in f"{closed} ".replace("2>&- ", "") else results.read_text())


def test_a_closed_stream_is_not_the_next_file(tmp_path: Path) -> None:
    table = tmp_path / "instances.csv"
    table.write_text(f"{ROOT}/examples/digits.onnx,{ROOT}/examples/digits_violated.vnnlib,100\n")
    out = tmp_path / "out"
    done = shell(("campaign", str(table), "--max-evaluations", "5000", "--out", str(out)), "<&- >&- 2>&-")
    assert done.returncode == 0
    assert ",sat," in shell(("export", str(out)), "").stdout + (out / "results.csv").read_text()
    assert (out / "campaign.sqlite").read_bytes().startswith(b"SQLite format 3\0")


def test_a_full_log_does_not_cost_the_answer() -> None:
    done = shell(("verify", *QUERY), "2>/dev/full")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "sat")


def test_full_stdout_is_told_in_one_line(tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    done = shell(("verify", *QUERY, "--results", str(results)), ">/dev/full")
    assert done.returncode == 2
    assert (
        done.stderr == "falsifier: standard output: No space left on device: free some space, or name another place\n"
    )
    assert results.read_text().startswith("sat\n((X_0 ")
    for words in (("--version",), ("supports", "--vnnlib-versions")):
        done = shell(words, ">/dev/full")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "standard output: No space left" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify", *QUERY, "--json", "/dev/full"), "the result (--json)"),
        (("convert", QUERY[0], "-o", "/dev/full"), "the query (--output)"),
        (("quantize", QUERY[2], "--to", "float16", "-o", "/dev/full"), "the copy"),
    ],
)
def test_a_full_disk_names_the_output(words: tuple[str, ...], said: str) -> None:
    done = shell(words, "")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last == f"falsifier: /dev/full: {said} cannot be written (No space left on device)"


def test_the_libraries_report_to_nobody() -> None:
    code = "import os; from falsifier import cli\n"
    code += "cli.main = lambda: print(os.environ['ORT_DISABLE_TELEMETRY']) or 0\ncli.entry()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
