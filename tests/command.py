"""Running `python -m falsifier` as another program would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def falsifier(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The finished command, with its two streams as text."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "falsifier", *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
