"""The lock of a folder: one holder, and none that is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import ENVIRONMENT

from falsifier.campaign.lock import FolderLock
from falsifier.errors import InputError


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = FolderLock(tmp_path)
    for _ in range(2):  # a refusal takes nothing away from the holder
        with pytest.raises(InputError, match=f"is in use by process {os.getpid()} on "):
            FolderLock(tmp_path)
    first.release()
    first.release()
    with FolderLock(tmp_path):
        pass


@pytest.mark.parametrize(
    "child",
    ["if os.fork() == 0: print(os.getpid(), flush=True)", "print(subprocess.Popen(['sleep', '60']).pid, flush=True)"],
)
def test_the_lock_dies_with_its_process_and_not_with_its_children(tmp_path: Path, child: str) -> None:
    code = (
        "import os, subprocess, sys, time\nfrom pathlib import Path\nfrom falsifier.campaign.lock import FolderLock\n"
        f"lock = FolderLock(Path(sys.argv[1]))\n{child}\ntime.sleep(60)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        left_behind = int(holder.stdout.readline())
        try:
            with pytest.raises(InputError, match=f"process {holder.pid} on "):
                FolderLock(tmp_path)
            holder.kill()
            holder.wait(30)
            os.kill(left_behind, 0)  # it is there still
            FolderLock(tmp_path).release()
        finally:
            os.kill(left_behind, signal.SIGKILL)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"campaign\.lock: cannot be written: No such file"):
        FolderLock(tmp_path / "none")
