"""What both uses of onnxruntime share: session options, and its exceptions in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_MUCH = 1 << 24  # bytes
_PLACE = re.compile(r"/\S+\.(?:cc|h|cpp|cu):\d+ ")


def give_back(size: int) -> None:
    """Return freed memory to the system after `size` bytes of weights were loaded, where that is much.

    glibc keeps what onnxruntime frees while it reads and rearranges weights: one to two times their size.
    """
    if size < _MUCH:
        return
    import ctypes

    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def session_options(threads: int) -> Any:
    """`SessionOptions` with that many compute threads, none of them spinning, and nothing written to stderr."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 4
    return options


def inference_session(model: bytes, threads: int, level: Any, shared: Mapping[str, Any], *, integers: bool) -> Any:
    """An `InferenceSession` of a program on the CPU.

    level: of optimisation; shared: `OrtValue`s of constants that are no part of the model, to be held as long as the
    session is; integers: whether quantised layers may be computed in integers. Raises `errors`.
    """
    import onnxruntime

    options = session_options(threads)
    options.graph_optimization_level = level
    if not integers:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if shared:
        options.add_external_initializers(list(shared), list(shared.values()))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def errors() -> tuple[type[Exception], ...]:
    """What onnxruntime raises. Its classes have no common root of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*found, RuntimeError, ValueError, IndexError)


def one_line(error: Exception, limit: int = 240) -> str:
    """The text of an exception without its line breaks, its codes and its tail."""
    text = " ".join(str(error).split())
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    text = _without_places(re.sub(r"^Load model from .*? failed: ?", "", text))  # whose name is said before
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _without_places(text: str) -> str:
    """A message without the file, the line and the signature of the C++ function that it comes from."""
    while found := _PLACE.search(text):
        end, depth = found.end(), 0
        if (opening := text.find("(", end)) >= 0:
            for end in range(opening, len(text)):
                depth += (text[end] == "(") - (text[end] == ")")
                if depth == 0:
                    break
            end += 1
        rest = text[end:].removeprefix(" const").strip()
        text = f"{text[: found.start()].strip()} {rest}".strip() if rest else text[: found.start()].strip()
    return text


def is_out_of_memory(error: Exception) -> bool:
    """Whether onnxruntime says that an allocation failed."""
    text = str(error).lower()
    return "bad_alloc" in text or "bad allocation" in text or "failed to allocate" in text or "out of memory" in text
