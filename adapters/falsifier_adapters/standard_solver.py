"""Any program with the solver command line of the VNN-LIB standard (chapter 5), in its own environment by its path.

[my_solver]
adapter = "standard_solver"
command = "/opt/solver/bin/solver"     # text as a shell splits it, or a list of words
arguments = ["--device", "cpu"]        # added after those of the standard
memory_gb = 16                         # address space of each of its processes
share = 0.2                            # of the time limit: what the search has first
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falsifier.errors import InputError
from falsifier.handoff.adapter import Availability, Outcome
from falsifier.handoff.children import run
from falsifier.handoff.handoff import Handoff
from falsifier.verdict import Verdict
from falsifier_adapters.answers import outcome_of
from falsifier_adapters.files import plain
from falsifier_adapters.settings import Table, is_program

_REMEDY = "name its program in the configuration: [NAME] with adapter = 'standard_solver' and command = '/path/to/it'"
_SPARE = 0.05  # of the time left that a solver is told less of, so that its own limit comes first (whole seconds: some
# solvers read no decimals)
_NAMELESS = "f"  # how the one network of a 1.0 query, which names none, is called
_ASKING = 1.0  # seconds in which it has to tell its version


class StandardSolver:
    """Runs `COMMAND verify QUERY --network NAME=FILE --timeout SECONDS` and reads its stdout."""

    name = "standard_solver"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises InputError for settings other than those above."""
        table = Table(self.name, settings)
        self._command, self._arguments = table.words("command"), table.words("arguments")
        self._memory, self.share = table.memory(), table.share(0.25)
        table.close()

    def availability(self) -> Availability:
        """Whether the program is there."""
        if not self._command:
            return Availability(False, remedy=_REMEDY)
        if not is_program(self._command[0]):
            return Availability(False, remedy=f"install {self._command[0]}: there is no such program")
        return Availability(True, self._version)

    def _version(self) -> str:
        """What it says of itself. Raises InputError where it cannot be started."""
        try:
            ended = run([*self._command, "--version"], time.monotonic() + _ASKING)
        except OSError as error:
            raise InputError(f"{self._command[0]} cannot be started: {error.strerror}") from None
        return "".join(ended.stdout.strip().splitlines()[:1])[:40]

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        """Its answer. Its `sat` is the witness it prints, its `unsat` its own."""
        engine = Path(self._command[0]).name
        with tempfile.TemporaryDirectory(prefix="falsifier-") as folder:
            instance = plain(handoff.instance, Path(folder))
            networks = [f"--network={n.name or _NAMELESS}={n.path}" for n in instance.networks]
            left = (1 - _SPARE) * (deadline - time.monotonic())
            words = ["verify", str(instance.query), *networks, "--timeout", str(max(1, int(left))), *self._arguments]
            try:
                ended = run([*self._command, *words], deadline, cwd=Path(folder), memory=self._memory)
            except OSError as error:
                return Outcome(Verdict.UNKNOWN, f"cannot be started: {error.strerror}", engine)
        if ended.status is None and not ended.stdout.strip():
            kind = Verdict.UNKNOWN if ended.flooded else Verdict.TIMEOUT
            return Outcome(kind, ended.why, engine)
        return outcome_of(ended.stdout, handoff, engine, "" if ended.status == 0 else ended.why)
