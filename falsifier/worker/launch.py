"""Starting a worker: a process of its own that holds nothing of the script's but the folder it runs in."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass

from falsifier.worker.place import die_with

_TICK = 0.1  # seconds between two looks at whether the script still lives


@dataclass(frozen=True)
class Launcher:
    """The worker's connection to the process that started it and waits for it to be ready."""

    told: int

    def ready(self) -> None:
        """Let go of the launcher: from now on its end is its own."""
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        os.write(self.told, b"\n")
        os.close(self.told)


def launch(seconds: float, signals: set[signal.Signals]) -> Launcher | None:
    """Fork. In the worker: its launcher. In the launcher: None, once the worker is ready or has failed.

    Until it is ready the worker ends at once when the launcher does, which is after `seconds`, or when the script that
    called it ends. To be called before anything starts a thread. The worker runs with `signals` blocked.
    """
    script = os.getppid()
    life, _held = os.pipe()  # held open by the launcher
    ready, told = os.pipe()
    if os.fork():
        os.close(life)
        os.close(told)
        _wait(ready, script, time.monotonic() + seconds)
        return None
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _let_go({life, told})
    die_with(life)
    return Launcher(told)


def _let_go(keep: set[int]) -> None:
    """Close every descriptor but these, and put nothing in the place of the standard three."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:  # the one that listed them
                continue


def _wait(ready: int, script: int, end: float) -> None:
    """Until the worker tells or ends, the script ends, or the time is over."""
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    while not poll.poll(1000 * _TICK) and os.getppid() == script and time.monotonic() < end:
        pass
