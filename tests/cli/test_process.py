"""The guard ends a process on time with an answer, whatever the main thread does."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from falsifier.cli.process import Guard, age

PROGRAM = """
import sys, time
from falsifier.cli.process import Guard

def finish(signal):
    sys.stdout.write(f"cut short by {{signal}}\\n")  # in one piece: the main thread may be printing
    sys.stdout.flush()
    return 7

now = time.monotonic()
with Guard(now + {deadline}, now + {last}, finish) as guard:
    print("started", flush=True)
    {work}
    with guard.answering():
        print("own answer", flush=True)
"""


def rest(process: subprocess.Popen[str]) -> str:
    """What the process still prints, until it ends."""
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    process.wait(30)
    return text


def start(work: str, deadline: float = 60, last: float = 60) -> subprocess.Popen[str]:
    program = textwrap.dedent(PROGRAM).format(deadline=deadline, last=last, work=work)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def test_own_answer() -> None:
    process = start("pass")
    assert rest(process) == "own answer\n"
    assert process.returncode == 0


def test_deadline_during_a_library_call() -> None:
    process = start("time.sleep(60)", deadline=0.2)
    assert rest(process) == "cut short by None\n"
    assert process.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_during_a_library_call(number: signal.Signals) -> None:
    process = start("time.sleep(60)")
    process.send_signal(number)
    assert rest(process) == f"cut short by {int(number)}\n"
    assert process.returncode == 7


def test_a_library_that_holds_the_lock() -> None:
    # the pattern backtracks for longer than anybody waits, and holds the interpreter's lock all the while
    process = start("import re; re.match('(a*)*b', 'a' * 60)", deadline=0.2, last=0.5)
    assert rest(process) == ""
    assert process.returncode == 1


def test_the_end_of_the_caller() -> None:
    """A caller that is killed leaves no process behind that would still write somewhere."""
    inner = textwrap.dedent(PROGRAM).format(deadline=60, last=60, work="time.sleep(60)")
    inner = inner.replace("finish)", "finish, os.getppid())").replace("import sys, time", "import os, time")
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    process = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.kill()
    assert rest(process) == ""  # at the end of the inner process


def test_a_limit_that_passed_before_the_guard_was_set() -> None:
    program = textwrap.dedent(PROGRAM).format(deadline=-2, last=-1, work="time.sleep(60)")
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    assert "cut short by None" in done.stdout  # perhaps in the middle of what the main thread prints
    assert done.returncode == 7


def test_a_limit_that_passed_while_a_library_was_loading() -> None:
    """What loads a library holds the interpreter's lock; once it is free there is an answer."""
    loading = "import ctypes; ctypes.PyDLL(None).usleep(990_000); ctypes.PyDLL(None).usleep(990_000); time.sleep(60)"
    program = textwrap.dedent(PROGRAM).format(deadline=0.3, last=0.4, work=loading)
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    assert "cut short by None" in done.stdout
    assert done.returncode == 7


def test_only_one_answer() -> None:
    """A signal during the main thread's answer comes too late to change it."""
    work = "guard.answering().__enter__(); print('started', flush=True); time.sleep(1); sys.exit(0)"
    process = start(work)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGTERM)
    assert rest(process) == ""
    assert process.returncode == 0


def test_signals_are_as_before_afterwards() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with Guard(time.monotonic() + 60, time.monotonic() + 60, lambda _: 1):
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_age_counts_from_the_start_of_the_process() -> None:
    program = "import time; time.sleep(0.3); from falsifier.cli.process import age; print(age())"
    start_ = time.monotonic()
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 0.3 <= float(output) <= time.monotonic() - start_ + 0.02
    assert age() > 0
