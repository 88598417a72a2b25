"""What a user names as `module:function`, or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falsifier.errors import InputError


def imported(name: str, what: str, arguments: Sequence[str]) -> Any:
    """The function. A module is looked for in the current folder as well.

    Raises InputError where there is none, or it does not take `arguments`; `what` says what it was to be.
    """
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"{what} {name!r} is neither known by name nor of the form module:function")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module_name).stem, module_name)
            if spec is None or spec.loader is None or not Path(module_name).exists():
                raise InputError(f"{what} {name!r}: there is no file {module_name}")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            spec.loader.exec_module(module)
        else:
            if "" not in sys.path and str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(f"{what} {name!r}: no module {error.name!r} is found here or installed") from None
    found = getattr(module, attribute, None)
    if not callable(found):
        raise InputError(f"{what} {name!r}: {module_name} has no function {attribute!r}")
    try:
        inspect.signature(found).bind(*arguments)
    except TypeError:
        raise InputError(f"{what} {name!r} has to take {len(arguments)} arguments: {', '.join(arguments)}") from None
    except ValueError:  # compiled functions need not say what they take
        pass
    return found
