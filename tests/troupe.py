"""An instance whose search goes on for ever in the main process, for tests of companions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import models
import numpy as np

from falsifier.search.run import Run
from falsifier.search.stage import Stage

TESTS = Path(__file__).resolve().parent
PATIENCE = 120.0  # seconds for what takes a moment on an idle machine


class Waits:
    """Where the main process searches, one point a turn that is no witness; elsewhere what TROUPE says."""

    name, slice, growth = "waits", 0.01, 1.0

    def applies(self, run: Run) -> bool:
        return True

    def turn(self, run: Run) -> None:
        problem = run.batched
        at = -0.75 if run.rng.seed == 0 else float(os.environ.get("TROUPE", "0.75"))
        run.evaluate(problem, np.full((1, 1), at, np.float32), np.zeros(1, np.int64))
        time.sleep(0.002)


def stages() -> Iterator[Stage]:
    """The portfolio, as `troupe:stages`."""
    yield Waits()


def instance(folder: Path, upper: str = "1", least: str = "0.5") -> tuple[Path, Path]:
    """Network and query: x >= least on [-1, upper]."""
    network = models.save(models.chain([models.gemm([[1.0]])], [1, 1], [1, 1]), folder / "net.onnx")
    query = folder / "prop.vnnlib"
    query.write_text(models.declare(1, 1) + models.box(["-1"], [upper]) + f"(assert (>= Y_0 {least}))\n")
    return network, query


def running(module: str) -> list[int]:
    """Processes of this one's descent that run a module, and have not ended."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            ended = "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if module.encode() in words and not ended:
            found.append(pid)
    return found


def eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
