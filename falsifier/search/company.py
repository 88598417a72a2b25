"""Others that search the same targets elsewhere, as a run sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from falsifier.search.run import Run


class Company(Protocol):
    """Whom a run tells where it stands, and who may have a point to show it."""

    def look(self, run: Run) -> None:
        """Called between batches, so it has to be cheap. May show the door points (`Run.ask`)."""
        ...
