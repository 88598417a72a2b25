"""Which torch device computes, and the process-wide settings that results rest on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from falsifier.errors import InputError
from falsifier.machine import free_cores
from falsifier.network.torch_plan import is_out_of_memory


def resolve_device(device: str) -> Any:
    """The torch device for "auto" (CUDA if there is one), "cpu", "cuda" or "cuda:i".

    "meta" computes shapes and no numbers: a run on it proves that nothing waits for results. Raises InputError for any
    other text, and where a CUDA device that was asked for cannot be had.
    """
    import torch

    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if device in ("cpu", "meta"):
        return torch.device(device)
    kind, colon, index = device.partition(":")
    if kind != "cuda" or (colon and not (index.isascii() and index.isdigit())):
        raise InputError(f"unknown device {device!r}: use auto, cpu, cuda or cuda:i")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(index or 0) >= count:
        raise InputError(
            f"device {device!r} cannot be had (torch {torch.__version__} sees {count} CUDA devices): use cpu or auto"
        )
    return torch.device("cuda", int(index or 0))


def prepare_torch(device: Any, threads: int | None = None) -> None:
    """Set what is global in torch, once an engine is built.

    On CUDA, TF32 is switched off: with its 10 bits of mantissa most candidates would not survive the replay. On the CPU
    torch gets `threads` intra-op threads, by default one per core that this process may keep busy.
    """
    import torch

    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    count = threads or free_cores()
    if device.type == "cpu" and torch.get_num_threads() != count:
        torch.set_num_threads(count)


@contextmanager
def memory_guard(device: Any) -> Iterator[None]:
    """Turn torch's ways to say that memory ran out into MemoryError, after giving cached blocks back to the device."""
    import torch

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not is_out_of_memory(error):
            raise
        if device.type == "cuda":
            torch.cuda.empty_cache()
        raise MemoryError(str(error).splitlines()[0] if str(error) else "out of memory") from error
