"""All parts of a fuzzer, put together by `build`, and the loop that they make."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from falsifier.arrays import Rng
from falsifier.fuzz.coverage import Coverage
from falsifier.fuzz.entries import Entries
from falsifier.fuzz.loop import Hit, Loop, Runner
from falsifier.fuzz.mutators import Mutator
from falsifier.fuzz.objectives import Objective
from falsifier.fuzz.settings import Settings
from falsifier.fuzz.space import Space
from falsifier.fuzz.watch import Seen
from falsifier.network import Network, load

Array = NDArray[Any]


@dataclass
class Fuzzer:
    """All parts of a fuzzer. `notes`: what a user should know of how it was put together."""

    settings: Settings
    network: Network
    space: Space
    run: Runner
    objective: Objective
    mutators: list[tuple[Mutator, float]]
    coverage: Coverage
    cover: Callable[[Seen], Array]
    lanes: int
    rng: Rng
    tries: int = 500  # runs of the original that making one hit small may take
    notes: list[str] = field(default_factory=list)

    def identity(self) -> dict[str, Any]:
        """What must be the same when a session goes on."""
        against = self.settings.against
        return {
            "model": hashlib.sha256(self.network.data).hexdigest(),
            "starts": hashlib.sha256(self.space.starts.tobytes()).hexdigest(),
            **({} if against is None else {"against": hashlib.sha256(load(against).data).hexdigest()}),
            **self.settings.identity(),
        }

    def loop(
        self,
        on_hit: Hit,
        *,
        per_label: int = 3,
        on_keep: Callable[[Entries, int], None] | None = None,
        restore: Callable[[Entries], Array] | None = None,
    ) -> Loop:
        """A loop over these parts, which has run the starts; the arguments are those of `Loop`."""
        return Loop(
            self.space,
            self.run,
            self.objective,
            self.mutators,
            self.coverage,
            self.rng,
            lanes=self.lanes,
            cover=self.cover,
            on_hit=on_hit,
            per_label=per_label,
            on_keep=on_keep,
            restore=restore,
        )
