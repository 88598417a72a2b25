"""Numpy files that a user gives: what cannot be read is bad input, whichever way it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from falsifier.errors import InputError


@contextmanager
def numpy_file(path: Path, otherwise: str) -> Iterator[Any]:
    """The array of an .npy file, or the archive of an .npz file, whose arrays are read when they are asked for.

    Raises InputError where the file cannot be read, and with the text `otherwise` where it, or an array of it, is none.
    """
    from tokenize import TokenError
    from zipfile import BadZipFile
    from zlib import error as ZlibError  # noqa: N812

    try:
        with path.open("rb") as file:
            yield np.load(file, allow_pickle=False)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, EOFError, BadZipFile, ZlibError, TokenError, SyntaxError):  # numpy reads headers as Python
        raise InputError(f"{path}: {otherwise}") from None
