"""A worker: a process that runs units one after another, and keeps networks loaded from one to the next.

Its errors stay its own: whatever ends it, the kernel closes its connection, and the process that hired it sees how far
it came. It ends with that process, at once, even inside a library.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.campaign.executors import Standing
from falsifier.campaign.executors.messages import (
    LOADING,
    At,
    Decided,
    Done,
    Improved,
    Message,
    Ready,
    Setup,
    Stands,
    Warned,
)
from falsifier.machine import die_with_parent, prefer_for_killing, take_share

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from falsifier.campaign.plan import Job
    from falsifier.campaign.record import Decision
    from falsifier.campaign.units import Unit
    from falsifier.network import Network

    Send = Callable[[Message], None]

_EVERY = 0.5  # seconds between two messages about where it stands
_KEPT = 1 << 26  # bytes of models that stay loaded; the last one does in any case
_PREFERRED = 500  # of 1000: whom the kernel ends where memory runs out, rather than the process that hired it


def main(descriptor: int, parent: int) -> None:
    """Serve the process `parent` over a connection until it closes it."""
    die_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    from multiprocessing.connection import Connection

    try:
        with Connection(descriptor) as connection:
            _serve(connection)
    except (EOFError, OSError):  # nobody listens any more
        os._exit(1)


def _serve(connection: Connection[Message, Setup | Unit]) -> None:
    setup = connection.recv()
    assert isinstance(setup, Setup)
    _settle(setup)
    # what every unit needs, while nobody waits for it yet
    import onnxruntime  # noqa: F401

    import falsifier.campaign.run  # noqa: F401

    connection.send(Ready())
    networks: dict[Path, Network] = {}
    while True:
        unit = connection.recv()
        assert not isinstance(unit, Setup)
        run_unit(unit, setup, connection.send, networks)
        del unit
        _trim(networks)
        connection.send(Done())


def run_unit(unit: Unit, setup: Setup, send: Send, networks: dict[Path, Network]) -> None:
    """Run a unit and tell how it goes. networks: loaded so far, and the unit's afterwards."""
    from falsifier.campaign.run import Campaign

    account = _Told(unit.jobs, send)
    account.at(LOADING, unit.jobs)
    _load(unit, networks)
    Campaign(unit.jobs, account, setup.settings, loaded=networks).run()


class _Told:
    """What happens goes over the connection; the crew has noted already that the unit began."""

    def __init__(self, jobs: Sequence[Job], send: Send) -> None:
        self._numbers = {id(job): number for number, job in enumerate(jobs)}
        self._send, self._last = send, 0.0

    def begin(self, jobs: Sequence[Job]) -> None:
        """It has."""

    def decide(self, job: Job, decision: Decision) -> None:
        self._send(Decided(self._numbers[id(job)], decision))

    def improve(self, job: Job, decision: Decision) -> None:
        self._send(Improved(self._numbers[id(job)], decision))

    def stand(self, standing: Standing) -> None:
        """Also a sign that the search goes on."""
        now = time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            self._send(Stands(standing))

    def at(self, phase: str, jobs: Sequence[Job]) -> None:
        self._send(At(phase, self._places(jobs)))

    def warn(self, text: str) -> None:
        self._send(Warned(text))

    def _places(self, jobs: Sequence[Job]) -> tuple[int, ...]:
        return tuple(self._numbers[id(job)] for job in jobs)


def _settle(setup: Setup) -> None:
    """Take the cores and the folder that are this worker's."""
    if setup.cores is not None:
        with suppress(OSError, AttributeError):  # they may have been taken from this machine meanwhile
            os.sched_setaffinity(0, setup.cores)
    if setup.threads is not None:
        take_share(setup.threads)
    prefer_for_killing(_PREFERRED)
    with suppress(OSError):  # on another machine it need not be there
        os.chdir(setup.folder)


def _load(unit: Unit, networks: dict[Path, Network]) -> None:
    """Have the unit's networks in `networks`, opened by onnxruntime; those that cannot be are left out: the campaign
    says what is wrong with them.
    """
    from falsifier.campaign.dataset import Sample
    from falsifier.errors import FalsifierError
    from falsifier.network import load

    question = unit.jobs[0].question
    for named in unit.jobs[0].networks:
        network = networks.pop(named.path, None)  # the last used stands last
        try:
            network = network or load(named.path)
            network = question.data.fit(network) if isinstance(question, Sample) else network
            network.reference  # noqa: B018 - made now, and kept
            networks[named.path] = network
        except (FalsifierError, MemoryError):
            continue


def _trim(networks: dict[Path, Network]) -> None:
    """Let go of the networks that were used longest ago, and give freed memory back."""
    total = 0
    for path in reversed(list(networks)):
        with suppress(OSError):
            total += path.stat().st_size
        if total > _KEPT and len(networks) > 1 and path != next(reversed(networks)):
            del networks[path]
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
