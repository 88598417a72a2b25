"""Small programs that stand for verifiers, well-behaved and otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

HEAD = f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n"
WITNESS = "sat\n((X_0 1.75)\n(Y_0 1.75))\n"

ANSWERS: dict[str, str] = {
    "right": f"print({WITNESS!r}, end='')",
    "unsat": "print('unsat')",
    "wrong sat": "print('sat\\n((X_0 0.25)\\n(Y_0 9.0))')",
    "sat without witness": "print('sat')",
    "silent": "",
    "garbage": "os.write(1, bytes(range(256)) * 10)",
    "crashing": "sys.stderr.write('Traceback: it broke\\n'); os.abort()",
    "failing": "sys.stderr.write('no licence\\n'); sys.exit(3)",
    "hanging": "time.sleep(600)",
    "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "eating": "x = []\nwhile True: x.append(bytearray(10_000_000))",
    "flooding": "block = b'x' * (1 << 20)\nwhile True: os.write(1, block)",
    "breeding": (
        "program = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'\n"
        "subprocess.Popen([sys.executable, '-c', program, __file__], start_new_session=True)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "    os._exit(0)\n"
        "time.sleep(600)"
    ),
    "shedding": (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "        program = 'import time; time.sleep(600)'\n"
        "        os.execve(sys.executable, [sys.executable, '-c', program, __file__], {})\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('unknown', flush=True)"
    ),
    "littering": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', __file__], start_new_session=True,"
        " stdout=subprocess.DEVNULL)\nprint('unknown')"
    ),
}

ANSWERS["shedding and hanging"] = f"{ANSWERS['shedding']}\ntime.sleep(600)"


def solver(folder: Path, answer: str) -> Path:
    """A program with the standard's command line that behaves as ANSWERS says."""
    path = folder / "solver"
    path.write_text(f"{HEAD}if '--version' in sys.argv: print('1.2.3'); sys.exit()\n{ANSWERS[answer]}\n")
    path.chmod(0o755)
    return path


def tool(folder: Path, answer: str) -> Path:
    """A competition tool folder whose run_instance.sh writes to its results file what ANSWERS prints."""
    folder.mkdir()
    program = folder / "program"
    program.write_text(f"{HEAD}{ANSWERS[answer]}\n")
    program.chmod(0o755)
    scripts = {
        "install_tool.sh": "exit 0",
        "prepare_instance.sh": 'echo "$@" >>"${0%/*}/prepared"',
        "run_instance.sh": 'echo "$@" >>"${0%/*}/ran"; exec "${0%/*}/program" >"$5"',
    }
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return folder


def still_running(folder: Path) -> list[str]:
    """Command lines of live processes that run a program of this folder, or that one started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found
