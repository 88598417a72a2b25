"""Programs under a deadline: how they end, and that nothing of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_solvers import solver, still_running

from falsifier.handoff import children


def zombies() -> list[int]:
    """Children of this process that have ended and whose status nobody took."""
    table = children._processes() or {}
    return [process for process, known in table.items() if known.ended and known.parent == os.getpid()]


def ended(folder: Path, answer: str, seconds: float, memory: int | None = None) -> children.Ended:
    return children.run([str(solver(folder, answer))], time.monotonic() + seconds, memory=memory)


def test_a_program_that_ends_by_itself(tmp_path: Path) -> None:
    done = ended(tmp_path, "unsat", 60)
    assert (done.status, done.stdout) == (0, "unsat\n")


@pytest.mark.parametrize(
    ("answer", "says"),
    [("failing", "ended with status 3: no licence"), ("crashing", "was ended by signal 6: Traceback: it broke")],
)
def test_a_program_that_fails(tmp_path: Path, answer: str, says: str) -> None:
    assert ended(tmp_path, answer, 60).why == says


@pytest.mark.parametrize("answer", ["hanging", "deaf", "breeding", "shedding and hanging"])
def test_at_the_deadline_nothing_is_left(tmp_path: Path, answer: str) -> None:
    done = ended(tmp_path, answer, 1.5)
    assert done.status is None
    assert done.why == "was stopped at the deadline"
    assert still_running(tmp_path) == []


@pytest.mark.parametrize("answer", ["littering", "shedding"])
def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path, answer: str) -> None:
    """Also a daemon with a session and an environment of its own, whose parents have ended."""
    before = zombies()  # what other tests of this process left
    assert ended(tmp_path, answer, 60).stdout == "unknown\n"
    assert still_running(tmp_path) == []
    assert set(zombies()) <= set(before)


def test_what_others_started_goes_on(tmp_path: Path) -> None:
    """Before the program, or beside it in this process's own session, or as the program of another tree."""
    sleep = ["sleep", "600"]
    before = subprocess.Popen(sleep, start_new_session=True)
    with children.Tree() as other, children.Tree() as tree:
        thread = threading.Thread(target=other.run, args=(sleep, time.monotonic() + 60))
        thread.start()
        while not other.members():
            time.sleep(0.01)
        beside = subprocess.Popen(sleep)
        assert tree.run([str(solver(tmp_path, "shedding"))], time.monotonic() + 60).stdout == "unknown\n"
        tree.end()
        assert still_running(tmp_path) == []
        assert thread.is_alive()
        assert (before.poll(), beside.poll()) == (None, None)
        other.end()
        thread.join()
    for process in (before, beside):
        assert process.poll() is None
        process.kill()
        process.wait()


def test_orphans_come_to_this_process_for_a_while_only(tmp_path: Path) -> None:
    """Afterwards they are again nobody's."""
    ended(tmp_path, "unsat", 60)
    program = "import os, time\nif os.fork() == 0:\n    time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], start_new_session=True)
    process.wait()
    (orphan,) = [p for p, known in (children._processes() or {}).items() if known.session == process.pid]
    parent = (children._processes() or {})[orphan].parent
    os.kill(orphan, 9)
    assert parent != os.getpid()


def test_a_program_that_eats_memory_is_held_to_its_limit(tmp_path: Path) -> None:
    done = ended(tmp_path, "eating", 60, memory=1 << 30)
    assert done.status == 1
    assert done.why.endswith("MemoryError")


def test_a_program_that_floods_its_output_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_MOST_OUTPUT", 1 << 22)
    done = ended(tmp_path, "flooding", 60)
    assert done.flooded
    assert done.why == "printed without end and was stopped"
    assert len(done.stdout) <= 1 << 22


def test_a_program_that_is_asked_to_end_may_still_answer(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time\n"
        "def answer(*_): print('unknown', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, answer)\n"
        "time.sleep(600)"
    )
    done = children.run([sys.executable, "-c", program], time.monotonic() + 3)
    assert done.stdout == "unknown\n"


def test_everything_can_be_ended_at_once(tmp_path: Path) -> None:
    threading.Timer(1.0, children.end_all).start()
    done = ended(tmp_path, "deaf", 60)
    assert done.status == -9
    assert still_running(tmp_path) == []


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(OSError, match="No such file"):
        children.run(["/no/such/program"], time.monotonic() + 1)
