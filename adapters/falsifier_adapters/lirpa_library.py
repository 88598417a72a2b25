"""The library auto_LiRPA: where it is found, and how it is imported without what it does to its surroundings.

Its own package comes first, else the copy that the wheel `neuralsat` carries. Only what 0.6.0 and 0.7.1 share is used:
BoundedModule, BoundedTensor, PerturbationLpNorm, compute_bounds(x, C, method).
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PLACES = ("auto_LiRPA", "src.abstractor.auto_LiRPA")
REMEDY = "pip install 'git+https://github.com/Verified-Intelligence/auto_LiRPA.git@v0.7.1'"


@dataclass(frozen=True)
class Library:
    """The names that are used, and the version."""

    version: str
    bounded_module: Any
    bounded_tensor: Any
    perturbation: Any


def place() -> str | None:
    """The module that an import would bring; None where there is none. Nothing heavy is imported."""
    for name in PLACES:
        try:
            if find_spec(name) is not None:
                return name
        except (ImportError, ValueError):
            continue
    return None


def library() -> Library:
    """Import it. Raises ImportError."""
    name = place()
    if name is None:
        raise ImportError(f"auto_LiRPA is not installed: {REMEDY}")
    handlers = list(logging.root.handlers)
    with quiet():
        module = import_module(name)
    for handler in [h for h in logging.root.handlers if h not in handlers]:
        logging.root.removeHandler(handler)  # it writes to stdout, which belongs to the answer
    for other, loaded in list(sys.modules.items()):
        if other.startswith(f"{name}.") and loaded is not None:
            loaded.__dict__.setdefault("print", _say_nothing)
            logging.getLogger(other).setLevel(logging.CRITICAL)
    version = str(getattr(module, "__version__", ""))
    return Library(version, module.BoundedModule, module.BoundedTensor, module.PerturbationLpNorm)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and with the filters for them as they were afterwards: the library sets its own on import."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def in_double() -> Iterator[None]:
    """With float64 as the type of what the library makes without a type, on one thread.

    Its operations are too small for several threads: where the cores are busy they wait for each other.
    """
    import torch

    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        with quiet():
            yield
    finally:
        torch.set_default_dtype(before)
        torch.set_num_threads(threads)


def _say_nothing(*_: object, **__: object) -> None:
    """In place of print: stdout belongs to the answer."""
