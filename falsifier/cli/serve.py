"""`falsifier serve`: the warm worker of one instance. It prepares in the background, answers one `verify`, and ends.

Used by `vnncomp_scripts`; the other side is `worker/client.sh`.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli import reported
from falsifier.cli.arguments import Parser, positive_int
from falsifier.cli.results_file import ResultsFile
from falsifier.cli.verify import Verification, carry_out
from falsifier.cli.verify import parser as verify_parser
from falsifier.instance import LINE_ENDS, parse_networks
from falsifier.worker.launch import Launcher, launch
from falsifier.worker.place import ClosedError, Place, demand_private, tidy

if TYPE_CHECKING:
    from falsifier.falsify import Prepared

_PREPARATION = 300.0  # seconds, half of what the competition grants: a script that is killed loses the instance
_MOST_WAITING = (
    8  # workers of one user: memory is not filled by a caller who prepares everything before running anything
)
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_SAME = ("network", "query", "device", "require", "portfolio", "budgets")  # options that preparation depends on


def run(words: list[str], started: float) -> int:
    """Start the worker and return when it is ready, or has failed: then there is none."""
    options = _parser().parse_args(words)
    launcher = launch(_PREPARATION, _SIGNALS)
    if launcher is None:
        return 0
    try:
        _serve(options, launcher)
    finally:
        os._exit(0)  # whatever it was: a client that finds no worker answers by itself


def _serve(options: Namespace, launcher: Launcher) -> None:
    base = Path(options.folder)
    demand_private(base)
    if tidy(base, options.identity) >= _MOST_WAITING:
        return
    offered = verify_parser().parse_args([*(f"--network={text}" for text in options.network), "--", options.query])
    prepared, unchanged = _prepare(offered)
    place = Place(base, options.identity)
    try:
        launcher.ready()
        words = place.request(options.unused, _SIGNALS)
    except ClosedError:
        return
    finally:
        place.remove()
    place.end_with_client()
    _answer(words, offered, prepared, unchanged, place)


def _prepare(offered: Namespace) -> tuple[Prepared, Callable[[], bool]]:
    """The instance, warm, and whether its files are still those that were read."""
    from falsifier.falsify import Prepared
    from falsifier.network.external_files import with_external_data
    from falsifier.worker.rehearsal import rehearse
    from falsifier.worker.stamps import stamps, unchanged

    rehearse()
    networks = parse_networks(offered.network)
    query = Path(offered.query.strip(LINE_ENDS))
    before = stamps([query, *(file for network in networks for file in with_external_data(network.path))])
    pairs = [(network.name, network.path) for network in networks]
    prepared = Prepared(pairs, query, device=offered.device, require=offered.require)
    prepared.warm()
    gc.collect()
    gc.freeze()  # what is there stays there
    return prepared, partial(unchanged, before)


def _answer(
    words: list[str], offered: Namespace, prepared: Prepared, unchanged: Callable[[], bool], place: Place
) -> None:
    """Carry out a command line of `verify` as a fresh process would."""
    stderr = io.StringIO()

    def reply(status: int) -> None:
        place.answer(f"{status}\n{stderr.getvalue()}")

    def verify() -> int:
        options = verify_parser().parse_args(words)
        if any(getattr(options, name) != getattr(offered, name) for name in _SAME) or not unchanged():
            place.answer("cold\n")
            os._exit(0)
        return carry_out(options, time.monotonic(), partial(_Served, prepared, reply))

    with redirect_stderr(stderr):
        try:
            status = reported(verify)
        except Exception:  # noqa: BLE001 - an internal error ends a fresh process with 1 and a trace on stderr
            import traceback

            traceback.print_exc()
            status = 1
    reply(status)


class _Served(Verification):
    """A run on a prepared instance."""

    def __init__(
        self,
        prepared: Prepared,
        reply: Callable[[int], None],
        options: Namespace,
        started: float,
        results: ResultsFile | None,
    ) -> None:
        super().__init__(options, started, results)
        self.prepared, self._reply = prepared, reply

    def cut_short(self, signal: int | None) -> int:
        status = super().cut_short(signal)
        self._reply(status)
        return status


def _parser() -> Parser:
    parser = Parser("serve", "Prepare one instance in the background and answer one run of it (vnncomp_scripts).")
    parser.add_argument("query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip")
    parser.add_networks()
    parser.add_argument("--folder", required=True, metavar="DIR", help="where it waits, private to the user")
    parser.add_argument("--identity", required=True, metavar="TEXT", help="by which its client knows it")
    parser.add_argument(
        "--unused", type=positive_int, default=900, metavar="SECONDS", help="how long it waits (default 900)"
    )
    return parser
