"""The options of `campaign` that say who runs it, and what they ask for."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser, seconds, workers
from falsifier.errors import InputError

if TYPE_CHECKING:
    from falsifier.campaign.executors import Executor
    from falsifier.network import Network

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_OF_WORKERS = ("worker_memory", "worker_grace")


def add_workers(parser: Parser) -> None:
    """Add the options."""
    add = parser.add_argument_group("workers and machines").add_argument
    add(
        "--workers",
        type=workers,
        metavar="{N,auto}",
        help="run in N worker processes that share cores, memory and GPUs; auto: one for each core. An instance that "
        "ends its worker costs itself alone (default: this process does everything)",
    )
    add(
        "--worker-memory",
        type=_size,
        metavar="SIZE",
        help="what a worker may hold, as 500M or 4G (default: its share of four fifths of the machine's memory)",
    )
    add(
        "--worker-grace",
        type=seconds,
        metavar="SECONDS",
        help="how long an instance may be silent after its time limit before its worker is killed (default 60)",
    )
    add(
        "--executor",
        choices=("processes", "ray"),
        help="where workers run: on this machine (default), or on a Ray cluster (extra [ray])",
    )
    add(
        "--address",
        metavar="ADDRESS",
        help="of the Ray cluster, as for ray.init: auto, HOST:PORT, ray://HOST:PORT (default: one on this machine)",
    )


def executor_of(options: Namespace, loaded: Mapping[Path, Network]) -> Executor:
    """What the options ask for. loaded: networks that were loaded already. Raises InputError for a contradiction."""
    memory, grace = options.worker_memory, options.worker_grace
    if options.address is not None and options.executor != "ray":
        raise InputError("--address belongs to --executor ray, which is not given")
    if options.executor == "ray":
        from falsifier.campaign.executors.ray import Ray

        workers = None if options.workers in (None, "auto") else options.workers
        return Ray(options.address, workers, memory, grace)
    if options.workers is None:
        given = [name for name in (*_OF_WORKERS, "executor") if getattr(options, name) is not None]
        if given:
            raise InputError(f"--{given[0].replace('_', '-')} goes with --workers, which is not given")
        from falsifier.campaign.executors.inline import Inline

        return Inline(loaded)
    from falsifier.campaign.executors.processes import Processes
    from falsifier.machine import free_cores

    return Processes(free_cores() if options.workers == "auto" else options.workers, memory, grace)


def _size(text: str) -> int:
    """Bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip().upper())
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is not a size: write 500M or 4G")
    return size
