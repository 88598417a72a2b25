"""Any VNN-COMP tool folder: install_tool.sh, prepare_instance.sh, run_instance.sh. The falsifier goes in front of it.

[abcrown]
adapter = "vnncomp_tool"
dir = "/opt/alpha-beta-CROWN/vnncomp_scripts"
category = "acasxu"       # what its scripts get as CATEGORY (default: falsifier)
prepare = false           # whether the hand-off runs prepare_instance.sh first (default true)
memory_gb = 64
share = 0.1               # of the time limit: what the search has first
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falsifier.handoff.adapter import Availability, Outcome
from falsifier.handoff.children import Tree, script
from falsifier.handoff.handoff import Handoff
from falsifier.instance import Instance
from falsifier.verdict import Verdict
from falsifier_adapters.answers import outcome_of
from falsifier_adapters.files import plain
from falsifier_adapters.settings import Table

PREPARE, RUN = "prepare_instance.sh", "run_instance.sh"
_REMEDY = "name its folder in the configuration: [NAME] with adapter = 'vnncomp_tool' and dir = '/path/to/its/scripts'"
_LEAST = 1  # seconds, the shortest limit that a script is told


class VnncompTool:
    """Runs a tool's scripts by the competition's contract and reads its results file."""

    name = "vnncomp_tool"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises InputError for settings other than those above."""
        table = Table(self.name, settings)
        folder = table.text("dir", "")
        self._folder = Path(folder).expanduser().absolute() if folder else None
        self._category, self._prepare = table.text("category", "falsifier"), table.flag("prepare", default=True)
        self._memory, self.share = table.memory(), table.share(0.1)
        table.close()

    def availability(self) -> Availability:
        """Whether the folder holds the scripts."""
        if self._folder is None:
            return Availability(False, remedy=_REMEDY)
        missing = [name for name in (PREPARE, RUN) if not (self._folder / name).is_file()]
        if missing:
            return Availability(False, remedy=f"{self._folder} holds no {missing[0]}: is it the tool's script folder?")
        return Availability(True)

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        """The answer in its results file; only `sat` is read further."""
        assert self._folder is not None
        engine = self._folder.parent.name if self._folder.name == "vnncomp_scripts" else self._folder.name
        with tempfile.TemporaryDirectory(prefix="falsifier-") as folder, Tree(self._memory) as tree:
            instance = plain(handoff.instance, Path(folder))
            words = ["v1", self._category, network_argument(instance), str(instance.query)]
            results = Path(folder) / "results.txt"
            results.write_text("no_result_in_file\n")
            try:
                if self._prepare:
                    prepared = tree.run([*script(self._folder / PREPARE), *words], deadline)
                    if prepared.status != 0:
                        kind = Verdict.TIMEOUT if prepared.status is None else Verdict.UNKNOWN
                        return Outcome(kind, f"its {PREPARE} {prepared.why}", engine)
                seconds = max(_LEAST, int(deadline - time.monotonic()))
                ended = tree.run([*script(self._folder / RUN), *words, str(results), str(seconds)], deadline)
            except OSError as error:
                return Outcome(Verdict.UNKNOWN, f"cannot be started: {error.strerror}", engine)
            text = results.read_text(errors="replace") if results.is_file() else ""
        if text.split()[:1] == ["no_result_in_file"]:
            text = ""
        if not text.strip() and ended.status is None:
            return Outcome(Verdict.UNKNOWN if ended.flooded else Verdict.TIMEOUT, ended.why, engine)
        if ended.status not in (0, None):  # by the contract its results are not read then
            return Outcome(Verdict.UNKNOWN, ended.why, engine)
        return outcome_of(text, handoff, engine, "" if ended.status == 0 else ended.why)


def network_argument(instance: Instance) -> str:
    """What stands in the ONNX position: a path, or a Python list of (name, path) where there are names."""
    if len(instance.networks) == 1 and instance.networks[0].name is None:
        return str(instance.networks[0].path)
    return repr([(network.name, str(network.path)) for network in instance.networks])
