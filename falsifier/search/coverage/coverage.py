"""Coverage: what one step touched inside the network, and which of it nobody touched before (paper A, 16 and 17).

One file per kind. Another one is a class with the members of `Coverage`, put into a `Recipe`. An instance serves one
search: it remembers what was touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from falsifier.arrays import Array


class Coverage(Protocol):
    """name: as shown in records. channels: whether maps of convolutions come as one number for each channel, the
    largest magnitude (else whole)."""

    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> bool: ...

    def watch(self, layers: Sequence[str]) -> Sequence[str]:
        """Which of the tensors that activation functions make it wants to see."""
        ...

    def novel(self, activations: Array) -> Array:
        """Which lanes show something new, bool `[b]`, from activations `[b, w]`; takes it in.

        Called once a step, with the same w each time. Nothing it computes leaves the device.
        """
        ...

    def figures(self) -> dict[str, int]:
        """Counts for the record: what was touched, of how much."""
        ...
