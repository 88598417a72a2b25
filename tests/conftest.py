"""Makes `models` importable by every test, keeps onnxruntime and torch on one thread, and hypothesis off the clock;
signals as a terminal's child has them; a small disk."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# what runs in the background of a script ignores SIGINT, and all that it starts would too
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler)

settings.register_profile("no clock", deadline=None)  # a machine under load is no failure
settings.load_profile("no clock")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB with 8 kB left, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a file system needs root")
    try:
        (folder / "filling").write_bytes(bytes(56 << 10))
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture(scope="module")
def real_numbers() -> Iterator[None]:
    """Comparisons mean what they say of real numbers: for readers that round, see test_room.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("falsifier.spec.room.roomy", lambda *_: None)
        yield
