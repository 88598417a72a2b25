"""Workers on a Ray cluster: the driver deals units and writes the record, Ray places actors and moves files.

Networks and queries go through the object store by their content, once for each node. An actor that is lost with its
node is no fault of its unit, which goes again.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from itertools import count
from typing import Any

from falsifier.campaign.executors import Sink
from falsifier.campaign.executors.crew import GRACE, Crew
from falsifier.campaign.executors.machine import descendants
from falsifier.campaign.executors.messages import Done, Message, Ready, Setup
from falsifier.campaign.executors.parcels import Parcels
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import Unit
from falsifier.errors import InputError

_STORE = 1 << 29  # bytes of the object store of a cluster that is started here
_KEPT = 1 << 28  # bytes of files that stay in it, whatever units need them
_LISTEN = 1.0  # seconds that a host waits for something to tell
_LAST_CALL = 3.0  # seconds that hosts have to tidy up
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    "RAY_LOG_TO_DRIVER": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}


class Ray:
    """An executor on the cluster at `address`, or on one of this machine alone that ends with the campaign.

    workers: how many actors, by default one for each CPU of the cluster; memory, grace: as for `Processes`.
    """

    def __init__(self, address: str | None, workers: int | None, memory: int | None, grace: float | None) -> None:
        self._address, self._workers, self._memory = address, workers, memory
        self._grace = GRACE if grace is None else grace
        self._ray: Any = None
        self._folder: str | None = None  # of a cluster that was started here
        self._gpus = 0.0  # for each worker
        self._crew: Crew[_Hired] | None = None
        self._hiring: _Hiring | None = None
        self.width = workers or 1  # until the cluster is known

    def prepare(self, settings: Settings) -> None:
        settings.demand_search()
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        if self._address is None:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))  # else it writes one into the home folder
        import ray

        self._ray = ray
        self._connect(self._address, self._workers)
        resources = self._ray.cluster_resources()
        self.width = self._workers or max(1, int(resources.get("CPU", 1)))
        gpus = int(resources.get("GPU", 0))
        if settings.device != "cpu" and gpus:
            self._gpus = 1.0 / -(-self.width // gpus)
        elif settings.device not in ("auto", "cpu"):
            raise InputError(f"device {settings.device!r} cannot be had: the Ray cluster has no GPUs")

    def run(self, units: Sequence[Unit], settings: Settings, sink: Sink) -> None:
        hiring = self._hiring = _Hiring(self._ray, settings, self._memory, self._gpus)
        self._crew = Crew(hiring, self.width, sink, self._grace)
        try:
            # what Ray says of dead nodes goes to stdout, past all its settings
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                self._crew.run(units)
        finally:
            hiring.see_off()
            self._leave()

    def abandon(self) -> None:
        """A cluster that was started here is killed; elsewhere hosts are asked to tidy up, and Ray ends what is left of
        a driver that is gone.
        """
        if self._crew is not None:
            self._crew.abandoned = True
        if self._folder is not None:
            for process in descendants():
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._hiring is not None:
            leaving = threading.Thread(target=self._hiring.dismiss, daemon=True)
            leaving.start()
            leaving.join(_LAST_CALL / 2)

    def _connect(self, address: str | None, workers: int | None) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "address": address}
        if address is None:
            self._folder = tempfile.mkdtemp(prefix="ray-")  # short: sockets lie in it
            options |= {
                "address": "local",
                "include_dashboard": False,
                "object_store_memory": _STORE,
                "num_cpus": workers,
                "_temp_dir": self._folder,
            }
        before = os.environ.get("TMPDIR")
        if self._folder is not None:  # of what it starts too, so that nothing is left elsewhere
            os.environ["TMPDIR"] = self._folder
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            self._leave()
            where = "" if address is None else f" at {address}"
            raise InputError(f"no Ray cluster{where}: {' '.join(str(error).split())[:300]}") from error
        finally:
            if before is None:
                os.environ.pop("TMPDIR", None)
            else:
                os.environ["TMPDIR"] = before

    def _leave(self) -> None:
        with suppress(Exception):  # it is over; what is wrong with the cluster now changes nothing
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Store:
    """Files in the object store, by the key of their parcel."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._held: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._parcels = Parcels()

    def send(self, unit: Unit) -> tuple[dict[Any, str], dict[str, Any]]:
        """Which parcel each path of a unit is the first file of, and references to what is in the parcels."""
        parcels = self._parcels.of(unit)
        places, files = {}, {}
        for path, parcel in parcels.items():
            if parcel.key not in self._held:
                try:
                    held = parcel.read()
                except (InputError, OSError):  # gone since it was looked at
                    continue
                self._held[parcel.key] = self._ray.put(held), sum(map(len, held.values()))
            self._held.move_to_end(parcel.key)
            files[parcel.key] = self._held[parcel.key][0]
            places[path] = parcel.key
        total = sum(size for _, size in self._held.values())
        while total > _KEPT and len(self._held) > 1:  # a unit at work holds references of its own
            total -= self._held.popitem(last=False)[1][1]
        return places, files


class _Hired:
    """An actor with its worker, as the crew sees it."""

    def __init__(self, ray: Any, store: _Store, name: str, host: Any) -> None:
        self.name, self.lost, self.worn = name, False, False
        self.closing: Any = None  # what its last words wait for
        self._ray, self._store, self._host = ray, store, host
        self._ready = False
        self._ended: str | None = None
        self._given: Any = None
        # what it will tell; None while it rests, since a unit that is given waits for whoever is listening
        self.told: Any = host.hear.remote(_LISTEN)

    def give(self, unit: Unit) -> None:
        places, files = self._store.send(unit)
        self._given = self._host.give.remote(unit.shipped(), places, files)
        self.told = self._host.hear.remote(_LISTEN)

    def hear(self) -> list[Message]:
        if self.told is None or self._ended is not None or not self._ray.wait([self.told], timeout=0)[0]:
            return []
        errors = self._ray.exceptions
        try:
            heard = self._ray.get(self.told)
            if self._given is not None:  # comes before what was heard after it
                done, _ = self._ray.wait([self._given], timeout=0)
                if done:
                    self.lost = not self._ray.get(self._given)  # it had ended before: its unit is not to blame
                    self._given = None
        except errors.RayActorError as error:
            self.lost = self._ready or self.lost
            self._ended = f"its machine was lost: {' '.join(str(error).split())[:200]}"
            return []
        except errors.RayError as error:
            cause = getattr(error, "cause", None) or error
            self._ended = f"its worker could not go on: {' '.join(str(cause).split())[:200]}"
            return []
        self._ended, self.worn = heard.ended, heard.worn
        self._ready = self._ready or any(isinstance(message, Ready) for message in heard.messages)
        messages: list[Message] = heard.messages
        resting = any(isinstance(message, Ready | Done) for message in messages)
        self.told = None if resting else self._host.hear.remote(_LISTEN)
        return messages

    def ended(self) -> str | None:
        return self._ended

    def kill(self, why: str) -> None:
        if not self._ready:  # no node had room for it, or it never came up there
            self.lost, self._ended = True, f"{why}: has the cluster room for it?"
            self._ray.kill(self._host)
        else:
            self._host.kill.remote(why)

    def close(self) -> None:
        """Ask it to tidy up; whether it has is `_Hiring.see_off`'s to wait for."""
        self.closing = self._host.close.remote()


class _Hiring:
    """Actors on the cluster. gpus: of one, for each."""

    def __init__(self, ray: Any, settings: Settings, memory: int | None, gpus: float) -> None:
        from falsifier.campaign.executors.ray_host import Host

        self._ray: Any = ray
        self._memory = memory
        self._setup = Setup(settings, None, os.getcwd())
        self._actor = ray.remote(Host).options(num_cpus=1, num_gpus=gpus, max_restarts=0, max_task_retries=0)
        self._store, self._campaign = _Store(ray), secrets.token_hex(8)
        self._numbers, self._hired = count(1), list[_Hired]()

    def hire(self) -> _Hired:
        name = f"worker {next(self._numbers)}"
        host = self._actor.remote(self._campaign, name, self._setup, self._memory)
        self._hired.append(_Hired(self._ray, self._store, name, host))
        return self._hired[-1]

    def wait(self, workers: Sequence[_Hired], seconds: float) -> None:
        told = [worker.told for worker in workers if worker.told is not None]
        if told:
            self._ray.wait(told, timeout=seconds)

    def dismiss(self) -> None:
        """End all hosts."""
        for worker in self._hired:
            with suppress(Exception):
                worker.close()
        self.see_off()

    def see_off(self) -> None:
        """Give the hosts time to leave nothing behind."""
        last = [worker.closing for worker in self._hired if worker.closing is not None]
        if last:
            with suppress(Exception):
                self._ray.wait(last, num_returns=len(last), timeout=_LAST_CALL)
