"""Random draws for both kinds of array from one integer."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from falsifier.arrays.basic import Array, as_wide, is_numpy, namespace, torch
from falsifier.arrays.bits import scrambled


class Rng:
    """All random draws of a search, for both kinds of array, from one integer.

    Each method takes `like`: an array whose kind, float type and device the draws get. Without it the default of the
    constructor holds: numpy and float64 for `device=None`, torch and float32 on that device otherwise. Draws of numpy
    and of torch are different streams; on one device the same calls give the same numbers.
    """

    def __init__(self, seed: int, device: str | None = None) -> None:
        self.seed = seed
        self._generators: dict[str, Any] = {}
        self._like: Array = np.empty(0) if device is None else torch().empty(0, device=device)

    @cached_property
    def _host(self) -> np.random.Generator:
        """Made at the first draw: numpy.random is not imported before."""
        return np.random.Generator(np.random.PCG64(self.seed))

    def spawn(self) -> Rng:
        """A generator whose stream is independent of this one's, with the same default."""
        child = Rng(int(self._host.integers(2**63)))
        child._like = self._like
        return child

    def _generator(self, device: Any) -> Any:
        key = str(device)
        if key not in self._generators:
            generator = torch().Generator(device=device)
            generator.manual_seed(
                int(scrambled(np.array([self.seed], dtype=np.int64).view(np.uint64))[0] >> np.uint64(1))
            )
            self._generators[key] = generator
        return self._generators[key]

    def uniform(self, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """Uniform in [0, 1)."""
        like = self._like if like is None else like
        if is_numpy(like):
            kind = np.float32 if like.dtype == np.float32 else np.float64
            return self._host.random(shape, dtype=kind)
        return torch().rand(shape, generator=self._generator(like.device), device=like.device, dtype=like.dtype)

    def normal(self, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """Standard normal."""
        like = self._like if like is None else like
        if is_numpy(like):
            kind = np.float32 if like.dtype == np.float32 else np.float64
            return self._host.standard_normal(shape, dtype=kind)
        return torch().randn(shape, generator=self._generator(like.device), device=like.device, dtype=like.dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """int64, uniform in low .. high - 1."""
        like = self._like if like is None else like
        if is_numpy(like):
            return self._host.integers(low, high, shape)
        return torch().randint(low, high, shape, generator=self._generator(like.device), device=like.device)

    def signs(self, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """-1.0 or 1.0, each with probability one half."""
        like = self._like if like is None else like
        draws = self.integers(0, 2, shape, like)
        kind = like.dtype if is_numpy(like) else None
        return (2 * draws - 1).astype(kind) if is_numpy(draws) else (2 * draws - 1).to(like.dtype)

    def permutation(self, count: int, like: Array | None = None) -> Array:
        """0 .. count - 1 in random order, int64."""
        like = self._like if like is None else like
        if is_numpy(like):
            return self._host.permutation(count)
        return torch().randperm(count, generator=self._generator(like.device), device=like.device)

    def choice(self, weights: Array, count: int) -> Array:
        """`count` positions drawn with replacement, each with probability weight over the sum of weights; int64
        `[count]`.

        `weights` `[w]` are non-negative and not all zero (else every position is as likely); the kind of array
        follows them.
        """
        xp = namespace(weights)
        total = as_wide(weights).cumsum(0)
        if not bool(total[-1] > 0):
            return self.integers(0, int(weights.shape[0]), (count,), weights)
        like = total[:1]
        draws = self.uniform((count,), like) * total[-1]
        index = (
            np.searchsorted(total, draws, side="right")
            if is_numpy(total)
            else torch().searchsorted(total, draws, right=True)
        )
        return xp.clip(index, 0, int(weights.shape[0]) - 1)
