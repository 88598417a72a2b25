"""Kinds of arrays, moving between host and device, selecting and placing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CACHED = 1 << 16  # numbers: 256 KB in float32

_UNSIGNED: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}

Array = Any  # a numpy array or a torch tensor


def namespace(x: Array) -> Any:
    """The array namespace of `x`: numpy itself (it follows the standard, and a wrapper costs 0.2 s), or torch's."""
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(x)


def is_numpy(x: Array) -> bool:
    """Whether `x` is a numpy array; everything else that is handed around here is a torch tensor."""
    return isinstance(x, np.ndarray)


def torch() -> Any:
    """The torch module, imported where a tensor was handed in."""
    import torch

    return torch


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
    return torch().from_numpy(np.ascontiguousarray(host)).to(like.device)


def beside(x: Array, like: Array) -> Array:
    """`x` as the kind of array that `like` is, on its device: `x` itself where it is that already."""
    if is_numpy(x) and is_numpy(like):
        return x
    if not is_numpy(x) and not is_numpy(like):
        return x.to(like.device)
    return as_like(to_host(x), like)


def as_dtype_of(x: Array, like: Array) -> Array:
    """`x` in the element type of `like`."""
    return x.astype(like.dtype) if is_numpy(x) else x.to(like.dtype)


def numpy_dtype(x: Array) -> np.dtype[Any]:
    """The element type of `x` as numpy names it."""
    name: Any = x.dtype if is_numpy(x) else str(x.dtype).removeprefix("torch.")
    kind: np.dtype[Any] = np.dtype(name)
    return kind


def as_wide(x: Array) -> Array:
    """`x` in float64, where it lies."""
    return x.astype(np.float64) if is_numpy(x) else x.to(torch().float64)


def as_int64(x: Array) -> Array:
    """`x` in int64, where it lies."""
    return x.astype(np.int64) if is_numpy(x) else x.to(torch().int64)


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
    return torch().take_along_dim(x, index.to(torch().int64), dim=1)


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
        values, index = torch().topk(nan_to(x, worst), k, dim=-1, largest=largest)
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


def distinct(x: NDArray[Any]) -> NDArray[Any]:
    """The different values of host data, sorted: `np.unique`, whose first call takes 10 ms to import numpy.ma."""
    ordered = np.sort(x, axis=None)
    first = np.ones(ordered.size, np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[first])


def nan_to(x: Array, value: float) -> Array:
    """`x` with every NaN replaced by `value`."""
    xp = namespace(x)
    return xp.where(xp.isnan(x), xp.asarray(value, dtype=x.dtype), x)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros of the kind, element type and device of `like`."""
    return np.zeros(shape, like.dtype) if is_numpy(like) else torch().zeros(shape, dtype=like.dtype, device=like.device)


def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
    """`value` everywhere, of the kind, element type and device of `like`."""
    if is_numpy(like):
        return np.full(shape, value, like.dtype)
    return torch().full(shape, value, dtype=like.dtype, device=like.device)


def arange(stop: int, like: Array) -> Array:
    """int64 0 .. stop - 1 beside `like`."""
    return np.arange(stop) if is_numpy(like) else torch().arange(stop, device=like.device)


def device_bytes(like: Array) -> int | None:
    """Free memory of the accelerator that `like` lies on, in bytes; None on the host."""
    if is_numpy(like) or like.device.type != "cuda":
        return None
    return int(torch().cuda.mem_get_info(like.device)[0])


def wait_for(like: Array) -> None:
    """Wait until the accelerator that `like` lies on has done what it was given; nothing to wait for elsewhere."""
    if not is_numpy(like) and like.device.type == "cuda":
        torch().cuda.synchronize(like.device)


def clip_into(x: Array, lower: Array, upper: Array) -> Array:
    """`x` moved into bounds (broadcast) in place."""
    if not is_numpy(x):
        return x.clamp_(lower, upper)
    np.maximum(x, lower, out=x)  # twice as fast as numpy's clip
    return np.minimum(x, upper, out=x)


def finite(x: Array) -> Array:
    """`x` with 0 in place of NaN and infinities; `x` itself where there are none on the host."""
    if not is_numpy(x):
        return x.nan_to_num(0.0, 0.0, 0.0)
    flat = x.reshape(-1)
    with np.errstate(all="ignore"):  # a sum of squares tells at once, in a sixth of the time
        if math.isfinite(flat @ flat):
            return x
    return np.where(np.isfinite(x), x, x.dtype.type(0))


def row_blocks(x: Array) -> list[slice]:
    """Rows of `x` `[b, f]` in parts that stay in a core's cache between operations; all at once on a device."""
    rows = x.shape[0]
    size = max(1, _CACHED // max(1, x.shape[1])) if is_numpy(x) else max(1, rows)
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


def copy_where(mask: Array, new: Array, old: Array) -> Array:
    """`new` where `mask`, `old` elsewhere, all broadcast to `old`; may write into `old`."""
    if not is_numpy(old):
        return torch().where(mask, new, old)
    np.copyto(old, new, where=mask)
    return old


def signed_into(size: Array, x: Array, out: Array) -> Array:
    """`size` (0 or more, broadcast) with the sign of `x`, 0 where `x` is 0, in `out`."""
    if not is_numpy(x):
        return torch().mul(torch().sign(x), size, out=out)
    kind = _UNSIGNED[x.dtype.itemsize]  # three times as fast as numpy's sign and a product
    np.bitwise_and(x.view(kind), kind(1 << (8 * x.dtype.itemsize - 1)), out=out.view(kind))
    np.bitwise_or(out.view(kind), size.view(kind), out=out.view(kind))
    zero = x == 0
    if zero.any():
        out[zero] = 0
    return out


def copy_rows(mask: Array, new: Array, old: Array) -> Array:
    """Rows of `new` where `mask` `[b]`, of `old` elsewhere; may write into `old`."""
    if not is_numpy(old):
        return torch().where(mask[:, None], new, old)
    index = np.flatnonzero(mask)
    if index.size:
        old[index] = new[index]
    return old


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: numpy's, torch's (by its class) or onnxruntime's (by its text)."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return "bad allocation" in text or "failed to allocate memory" in text or "out of memory" in text
