"""Coverage: whether what a batch showed is new. One file per kind."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


class Coverage(Protocol):
    """Keeps what was seen, and says of a batch what is new."""

    @property
    def name(self) -> str:
        """As in the report."""
        ...

    @property
    def size(self) -> int:
        """What is kept so far: vectors, neurons, patterns."""
        ...

    def novel(self, vectors: Array, parents: Array) -> Array:
        """Positions of rows that are new, and are kept from now on.

        vectors: `[b, d]`; parents: `[b, d]`, those of the rows' parents, which are kept already.
        """
        ...

    def restore(self, vectors: Array) -> None:
        """Keep these rows, of an earlier session."""
        ...
