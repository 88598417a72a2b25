"""Where a search gets its problems from: each is built when first asked for, so an easy instance pays for no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from falsifier.problem import Problem


class ProblemSource(Protocol):
    """The same targets on several engines."""

    @property
    def single(self) -> Problem:
        """On the reference, one sample at a time: there at once, slow per sample on small networks, no gradient."""
        ...

    @property
    def batched(self) -> Problem:
        """On the first engine that passed the self-check; the single-sample problem itself where none did."""
        ...

    def accelerate(self) -> bool:
        """Go over to an accelerator, where the choice is free and there is one: whether `batched` is another now.

        May take seconds the first time. Problems handed out before keep working.
        """
        ...

    @property
    def nearest(self) -> ProblemSource | None:
        """The same targets in boxes rounded to the nearest representable bounds.

        None where those are the boxes already, or where their witnesses are not wanted.
        """
        ...
