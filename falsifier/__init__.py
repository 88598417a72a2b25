"""falsifier: finds counterexamples to properties of neural networks.

ONNX networks and a VNN-LIB query in, a confirmed witness out. Public names are loaded when they are first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from falsifier.errors import FalsifierError as FalsifierError
    from falsifier.errors import InputError as InputError
    from falsifier.errors import UnsupportedError as UnsupportedError
    from falsifier.falsify import falsify as falsify
    from falsifier.instance import Instance as Instance
    from falsifier.refinement import Refinement as Refinement
    from falsifier.result import Result as Result
    from falsifier.verdict import StopReason as StopReason
    from falsifier.verdict import Verdict as Verdict
    from falsifier.witness.outcome import Witness as Witness
    from falsifier.witness.outcome import WitnessClass as WitnessClass

__version__ = "0.1.0"

_PUBLIC = {
    "FalsifierError": "falsifier.errors",
    "InputError": "falsifier.errors",
    "Instance": "falsifier.instance",
    "Refinement": "falsifier.refinement",
    "Result": "falsifier.result",
    "StopReason": "falsifier.verdict",
    "UnsupportedError": "falsifier.errors",
    "Verdict": "falsifier.verdict",
    "Witness": "falsifier.witness.outcome",
    "WitnessClass": "falsifier.witness.outcome",
    "falsify": "falsifier.falsify",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'falsifier' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])


class _Package(ModuleType):
    """Importing the module `falsifier.falsify` must not hide the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "falsify" and isinstance(value, ModuleType):
            value = value.falsify
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
