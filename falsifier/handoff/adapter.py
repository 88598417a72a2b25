"""What an adapter is: it takes a hand-off to a verifier and brings back an outcome. `docs/handoff.md` writes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from falsifier.verdict import Verdict

if TYPE_CHECKING:
    from falsifier.handoff.handoff import Handoff

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Availability:
    """Whether an adapter could run here. version: of what it drives, where known, or a function that finds it out (in
    about a second) where that means running something: `falsifier adapters` asks, a hand-off does not; remedy: the
    command that installs what is missing, empty where nothing is.
    """

    available: bool
    version: str | Callable[[], str] = ""
    remedy: str = ""

    def told(self) -> str:
        """The version, found out. Raises what the function raises."""
        return self.version() if callable(self.version) else self.version


@dataclass(frozen=True)
class Outcome:
    """What a verifier answered, in its adapter's words. Only `hand_over` makes a result of it.

    inputs: on sat, one flat array per declared input of the query, in order; the door replays them. reason: one line
    for the user. engine: who decided, with its version. arithmetic: what its answer rests on, such as "float64 bounds,
    allowance 1e-6". details: numbers worth keeping, JSON types; nothing is made to depend on them.
    """

    verdict: Verdict
    reason: str
    engine: str = ""
    arithmetic: str = ""
    inputs: Sequence[NDArray[Any]] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Adapter(Protocol):
    """Takes hand-offs to one verifier.

    An entry point `falsifier.adapters` names a callable that makes one from settings (a mapping of what stands under
    its name in the configuration; empty by default) and raises InputError for settings that it cannot use. Making it
    imports nothing heavy and starts nothing.
    """

    name: str
    share: float
    """Of the time limit: what the search has before the hand-off, where the user does not say. Small for an adapter
    that goes on searching itself."""

    def availability(self) -> Availability:
        """Whether it could run here. Cheap, since every hand-off asks: nothing heavy is imported, nothing is run."""
        ...

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        """Work on the instance until `deadline`, a reading of `time.monotonic`, at the latest.

        Leaves nothing running, prints nothing on stdout. Whatever goes wrong is an outcome `unknown` with the reason in
        one line; exceptions are caught by the caller and mean the same.
        """
        ...
