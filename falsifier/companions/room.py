"""How many companions a search has room for: cores, memory, time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from falsifier import machine

if TYPE_CHECKING:
    from falsifier.search.run import Run

_SHARE = 0.5  # of the memory left that companions may take together
_LIBRARIES = 0.5  # seconds until interpreter and libraries are there
_WORTH = 4  # how often a start has to fit into the time left


def room(run: Run, asked: int | str, reading: float) -> tuple[int, str]:
    """How many companions to start, and what keeps them from being more, in a few words.

    asked: processes that search, this one included; `auto`: one for each free core. reading: seconds that it took to
    read the instance, which a companion spends again.
    """
    engine = run.batched.engine
    if engine.name != "onnxruntime" or getattr(engine, "threads", 0) != 1:
        return 0, "the engine is not one that runs on one core"
    if not sys.executable:
        return 0, "no interpreter is known that could be started"
    if run.budget.remaining() < _WORTH * (_LIBRARIES + reading):
        return 0, "too little time is left for a start"
    count, why = (machine.free_cores() if asked == "auto" else int(asked)) - 1, ""
    if asked == "auto":
        why = f"{count + 1} {'core is' if count == 0 else 'cores are'} free"
    left, each = machine.memory_left(), machine.peak()
    if left is None or each == 0:
        return (0, "the memory left is not known") if asked == "auto" else (count, why)
    fit = int(_SHARE * left / each)
    return (
        (fit, f"{left / 1e9:.2g} GB of memory are left, and this process took {each / 1e9:.2g}")
        if fit < count
        else (count, why)
    )
