"""A folder with an instance in which the competition's scripts are run, for the tests of the warm worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import models

SCRIPTS = Path(__file__).resolve().parents[2] / "vnncomp_scripts"
PATIENCE = 180.0  # seconds for what takes a moment on an idle machine; less than what must not be waited for
NEVER = "(assert (<= Y_0 -1.0))\n"
CENTRE = "(assert (>= Y_0 0.25))\n"


def eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@dataclass
class Scene:
    """A folder with net.onnx and prop.vnnlib, and the scripts run in it with a private folder for workers."""

    folder: Path
    runtime: Path
    settings: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: str(uuid.uuid4()))

    def script(self, name: str, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "FALSIFIER_PYTHON": sys.executable,
            "SHELLOPTS": "xtrace",
            "OMP_NUM_THREADS": "1",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "SCENE": self.mark,
            **self.settings,
            **settings,
        }
        return subprocess.Popen(
            [str(SCRIPTS / name), "v1", "test", *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def prepare(self, net: str = "net.onnx", prop: str = "prop.vnnlib", **settings: str) -> float:
        """The seconds that it took: about as many as a fresh process needs before it searches."""
        started = time.monotonic()
        process = self.script("prepare_instance.sh", net, prop, **settings)
        process.communicate(timeout=PATIENCE)  # ends only once nothing holds the streams
        assert process.returncode == 0
        return time.monotonic() - started

    def start(self, timeout: str = "90", results: str = "out.txt", **settings: str) -> subprocess.Popen[str]:
        return self.script("run_instance.sh", "net.onnx", "prop.vnnlib", results, timeout, **settings)

    def run(self, timeout: str = "90", results: str = "out.txt", **settings: str) -> str:
        """What the script says on stderr, its own trace left out."""
        process = self.start(timeout, results, **settings)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("+"))

    def places(self) -> list[Path]:
        """Where workers wait, or dead ones left something."""
        return sorted(self.runtime.glob("falsifier-*/*"))

    def processes(self) -> list[int]:
        """Of this scene that live."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._mine(pid)]

    def _mine(self, pid: int) -> bool:
        try:
            running = "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
            return running and self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def worker(self) -> int:
        (place,) = self.places()
        return int(place.name)

    def results(self, name: str = "out.txt") -> str:
        return (self.folder / name).read_text()

    def gone(self) -> bool:
        return eventually(lambda: not self.processes())


def write(folder: Path, atom: str) -> None:
    models.save(models.chain([("Relu", [], {})], [1, 1], [1, 1]), folder / "net.onnx")
    (folder / "prop.vnnlib").write_text(models.declare(1, 1) + models.box([0], [1]) + atom)
