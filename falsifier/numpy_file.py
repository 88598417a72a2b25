"""Numpy files that a user gives: what cannot be read is bad input, whichever way it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from falsifier.errors import InputError
from falsifier.input_file import TEXT, VARIABLE, demand_size, limit_or, opened, too_large, unreadable


@contextmanager
def numpy_file(path: Path, otherwise: str) -> Iterator[Any]:
    """The array of an .npy file, or the archive of an .npz file, whose arrays are read when they are asked for.

    Raises InputError where the file cannot be read, and with the text `otherwise` where it, or an array of it, is none.
    """
    from tokenize import TokenError
    from zipfile import BadZipFile
    from zlib import error as ZlibError  # noqa: N812

    try:
        with opened(path) as file:
            demand_size(file, str(path), limit_or(TEXT))
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.ndarray):
                _demand_unpacked(found, path, limit_or(TEXT))
            yield found
    except InputError:
        raise
    except OSError as error:
        raise unreadable(str(path), error) from None
    except MemoryError:
        raise too_large(str(path), limit_or(TEXT)) from None
    except (
        ValueError,
        EOFError,
        OverflowError,
        BadZipFile,
        ZlibError,
        TokenError,
        SyntaxError,
    ):  # numpy reads headers as Python
        raise InputError(f"{path}: {otherwise}") from None


def _demand_unpacked(archive: Any, path: Path, limit: int) -> None:
    """Raise InputError where the arrays of an archive are larger than `limit` bytes together, by its own directory."""
    size = sum(entry.file_size for entry in archive.zip.infolist())
    if size > limit:
        raise InputError(f"{path}: holds {size} bytes unpacked, more than {limit}; raise the limit ({VARIABLE})")
