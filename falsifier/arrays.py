"""What the array API standard lacks, for numpy arrays and torch tensors alike, and the axis glossary.

Axes, used in every docstring: b lane, n flat input of the networks, f free input (what search moves), m flat output,
t target, k atom of a target, r distinct form.

Functions take an array of either kind and return the same kind on the same device. Torch is imported only where a
tensor was handed in. All random draws go through one type, `Rng`, which serves both kinds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # a numpy array or a torch tensor

_BITS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}
_MIX = 0x9E3779B97F4A7C15  # the odd constant of Fibonacci hashing: 2^64 over the golden ratio


def namespace(x: Array) -> Any:
    """The array namespace of `x`: numpy itself (it follows the standard, and a wrapper costs 0.2 s), or torch's."""
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(x)


def is_numpy(x: Array) -> bool:
    """Whether `x` is a numpy array; everything else that is handed around here is a torch tensor."""
    return isinstance(x, np.ndarray)


def _torch() -> Any:
    import torch

    return torch


# --- between host and device ---


def to_host(x: Array) -> NDArray[Any]:
    """The same values as a numpy array of the same element type (no copy where `x` is one)."""
    if is_numpy(x):
        return np.asarray(x)
    return np.asarray(x.detach().cpu().numpy())


def to_float64(x: Array) -> NDArray[np.float64]:
    """A float64 copy on the host."""
    return to_host(x).astype(np.float64)


def as_like(x: NDArray[Any], like: Array, dtype: Any = None) -> Array:
    """Host data beside `like`: same kind of array, same device. `dtype` is a numpy type; None keeps the type of `x`."""
    host = np.asarray(x) if dtype is None else np.asarray(x, dtype=dtype)
    if is_numpy(like):
        return host
    return _torch().from_numpy(np.ascontiguousarray(host)).to(like.device)


def as_dtype_of(x: Array, like: Array) -> Array:
    """`x` in the element type of `like`."""
    return x.astype(like.dtype) if is_numpy(x) else x.to(like.dtype)


def numpy_dtype(x: Array) -> np.dtype[Any]:
    """The element type of `x` as numpy names it."""
    name: Any = x.dtype if is_numpy(x) else str(x.dtype).removeprefix("torch.")
    kind: np.dtype[Any] = np.dtype(name)
    return kind


# --- selecting and placing ---


def take_rows(x: Array, index: Array) -> Array:
    """`x[index]` along the first axis, for an index of any shape."""
    return x[index]


def put_rows(x: Array, index: Array, rows: Array) -> Array:
    """A copy of `x` whose rows at `index` are `rows`; indices must be distinct."""
    out = x.copy() if is_numpy(x) else x.clone()
    out[index] = rows
    return out


def gather(x: Array, index: Array) -> Array:
    """`x[b, index[b, j]]` for `x` `[b, r]` and `index` `[b, j]`."""
    if is_numpy(x):
        return np.take_along_axis(x, index, axis=1)
    return _torch().take_along_dim(x, index.to(_torch().int64), dim=1)


def take_columns(x: Array, columns: Array) -> Array:
    """`x[b, columns[j]]` for `x` `[b, r]` and `columns` `[j]`."""
    return np.take(x, columns, axis=1) if is_numpy(x) else x[:, columns]


def add_columns(x: Array, columns: Array, values: Array) -> Array:
    """`x` `[b, n]` with `values` `[b, j]` added at `columns` `[j]`, in place; columns may repeat."""
    if is_numpy(x):
        np.add.at(x.T, columns, values.T)
        return x
    return x.index_add_(1, columns, values)


def top_k(x: Array, k: int, largest: bool = True) -> tuple[Array, Array]:
    """The k largest (or smallest) values along the last axis, best first, and their positions. NaN counts as worst.

    Ties go to the lower position under numpy; torch leaves them open.
    """
    k = min(k, int(x.shape[-1]))
    if not is_numpy(x):
        worst = -float("inf") if largest else float("inf")
        values, index = _torch().topk(nan_to(x, worst), k, dim=-1, largest=largest)
        return values, index
    key = nan_to(-x if largest else x, np.inf)
    if 4 * k < key.shape[-1]:
        index = np.sort(np.argpartition(key, k - 1, axis=-1)[..., :k], axis=-1)
        order = np.argsort(np.take_along_axis(key, index, axis=-1), axis=-1, kind="stable")
        index = np.take_along_axis(index, order, axis=-1)
    else:
        index = np.argsort(key, axis=-1, kind="stable")[..., :k]
    picked = np.take_along_axis(key, index, axis=-1)
    return (-picked if largest else picked), index


def nan_to(x: Array, value: float) -> Array:
    """`x` with every NaN replaced by `value`."""
    xp = namespace(x)
    return xp.where(xp.isnan(x), xp.asarray(value, dtype=x.dtype), x)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros of the kind, element type and device of `like`."""
    return (
        np.zeros(shape, like.dtype) if is_numpy(like) else _torch().zeros(shape, dtype=like.dtype, device=like.device)
    )


def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
    """`value` everywhere, of the kind, element type and device of `like`."""
    if is_numpy(like):
        return np.full(shape, value, like.dtype)
    return _torch().full(shape, value, dtype=like.dtype, device=like.device)


def arange(stop: int, like: Array) -> Array:
    """int64 0 .. stop - 1 beside `like`."""
    return np.arange(stop) if is_numpy(like) else _torch().arange(stop, device=like.device)


# --- bits ---


def bits(x: Array) -> Array:
    """The floats' bit patterns as signed integers of the same width, no copy."""
    if is_numpy(x):
        return np.ascontiguousarray(x).view(_BITS[x.dtype.itemsize])
    torch = _torch()
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def ordinal(x: Array) -> Array:
    """Integers that count representable values: x < y iff ordinal(x) < ordinal(y); both zeros are 0. Not for NaN."""
    xp = namespace(x)
    raw = bits(x)
    lowest = xp.iinfo(raw.dtype).min
    return xp.where(raw < 0, lowest - raw, raw)


def from_ordinal(count: Array, like: Array) -> Array:
    """The inverse of `ordinal`, in the float type of `like`."""
    xp = namespace(count)
    raw = xp.where(count < 0, xp.iinfo(count.dtype).min - count, count)
    return raw.view(like.dtype)


def step(x: Array, steps: Array | int) -> Array:
    """`x` moved by a number of representable values (broadcast), at most to the largest finite one; NaN stays."""
    xp = namespace(x)
    count = ordinal(x)
    if isinstance(steps, int):
        steps = xp.full_like(count, steps)
    # stopping short of the largest finite value's ordinal keeps the sum from wrapping around
    end = ordinal(xp.full_like(x, float(np.finfo(numpy_dtype(x)).max)))
    room_up, room_down = end - count, -end - count
    moved = count + xp.minimum(
        xp.maximum(steps.astype(count.dtype) if is_numpy(x) else steps.to(count.dtype), room_down), room_up
    )
    return xp.where(xp.isnan(x) | xp.isinf(x), x, from_ordinal(moved, x))


def row_hash(x: Array) -> Array:
    """A 64-bit hash of the bytes of every row, int64 `[b]`, made on the array's own device.

    Equal rows (bit for bit, so -0.0 differs from 0.0) get equal hashes; the same bits hash alike in numpy and torch.
    """
    raw = bits(x.reshape(x.shape[0], -1))
    position = np.arange(raw.shape[1], dtype=np.uint64)
    weight = as_like(_scrambled(position).view(np.int64) | 1, x)
    wide = raw.astype(np.int64) if is_numpy(x) else raw.to(_torch().int64)
    mixed = (wide ^ (wide << 21)) * weight
    mixed = mixed ^ (mixed >> 29)
    return (mixed * weight).sum(axis=1) if is_numpy(x) else (mixed * weight).sum(dim=1)


def _scrambled(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: a bijection whose outputs look random."""
    z = (x + np.uint64(1)) * np.uint64(_MIX)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: numpy's, torch's (by its class) or onnxruntime's (by its text)."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return "bad allocation" in text or "failed to allocate memory" in text or "out of memory" in text


# --- random draws ---


class Rng:
    """All random draws of a search, for both kinds of array, from one integer.

    Each method takes `like`: an array whose kind, float type and device the draws get. Without it the default of the
    constructor holds: numpy and float64 for `device=None`, torch and float32 on that device otherwise. Draws of numpy
    and of torch are different streams; on one device the same calls give the same numbers.
    """

    def __init__(self, seed: int, device: str | None = None) -> None:
        self.seed = seed
        self._host = np.random.Generator(np.random.PCG64(seed))
        self._generators: dict[str, Any] = {}
        self._like: Array = np.empty(0) if device is None else _torch().empty(0, device=device)

    def spawn(self) -> Rng:
        """A generator whose stream is independent of this one's, with the same default."""
        child = Rng(int(self._host.integers(2**63)))
        child._like = self._like
        return child

    def _generator(self, device: Any) -> Any:
        key = str(device)
        if key not in self._generators:
            generator = _torch().Generator(device=device)
            generator.manual_seed(
                int(_scrambled(np.array([self.seed], dtype=np.int64).view(np.uint64))[0] >> np.uint64(1))
            )
            self._generators[key] = generator
        return self._generators[key]

    def uniform(self, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """Uniform in [0, 1)."""
        like = self._like if like is None else like
        if is_numpy(like):
            kind = np.float32 if like.dtype == np.float32 else np.float64
            return self._host.random(shape, dtype=kind)
        return _torch().rand(shape, generator=self._generator(like.device), device=like.device, dtype=like.dtype)

    def normal(self, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """Standard normal."""
        like = self._like if like is None else like
        if is_numpy(like):
            kind = np.float32 if like.dtype == np.float32 else np.float64
            return self._host.standard_normal(shape, dtype=kind)
        return _torch().randn(shape, generator=self._generator(like.device), device=like.device, dtype=like.dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], like: Array | None = None) -> Array:
        """int64, uniform in low .. high - 1."""
        like = self._like if like is None else like
        if is_numpy(like):
            return self._host.integers(low, high, shape)
        return _torch().randint(low, high, shape, generator=self._generator(like.device), device=like.device)

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
        return _torch().randperm(count, generator=self._generator(like.device), device=like.device)

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
            else _torch().searchsorted(total, draws, right=True)
        )
        return xp.clip(index, 0, int(weights.shape[0]) - 1)


def as_wide(x: Array) -> Array:
    """`x` in float64."""
    return x.astype(np.float64) if is_numpy(x) else x.to(_torch().float64)
