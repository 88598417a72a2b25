"""Running the competition's scripts as the competition does: relative paths, stdin closed, SHELLOPTS=xtrace."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "vnncomp_scripts"
STALE = "sat\n((X_0 0.0)\n(Y_0 0.0))\n"


@dataclass
class Outcome:
    """What a run left behind."""

    status: int
    stderr: str
    results: str | None
    mark: str

    @property
    def word(self) -> str:
        return "".join((self.results or "").split("\n", 1)[0].split())

    def alive(self) -> list[int]:
        """Processes of this run that still exist."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, self.mark)]


def environment(mark: str = "") -> dict[str, str]:
    """The environment of a script; `mark` tells the processes of one run."""
    return {
        **os.environ,
        "FALSIFIER_PYTHON": sys.executable,
        "SHELLOPTS": "xtrace",
        "OMP_NUM_THREADS": "1",
        "SCRIPT_MARK": mark,
    }


def start(arguments: list[str], folder: Path, mark: str) -> subprocess.Popen[str]:
    """`run_instance.sh v1 test ARGUMENTS..`, started in a folder."""
    return subprocess.Popen(
        [str(SCRIPTS / "run_instance.sh"), "v1", "test", *arguments],
        cwd=folder,
        env=environment(mark),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], folder: Path, mark: str, results: str = "out.txt") -> Outcome:
    """Wait for a started script."""
    _, stderr = process.communicate(timeout=60)
    path = folder / results
    return Outcome(process.returncode, stderr, path.read_text() if path.is_file() else None, mark)


def run_instance(onnx: str, vnnlib: str, timeout: str, folder: Path, results: str = "out.txt") -> Outcome:
    """A whole run, with a results file as another run left it."""
    mark = str(uuid.uuid4())
    if (folder / results).parent.is_dir():
        (folder / results).write_text(STALE)
    return finish(start([onnx, vnnlib, results, timeout], folder, mark), folder, mark, results)


def _carries(pid: int, mark: str) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes() and "\nState:\tZ" not in status
    except OSError:
        return False
