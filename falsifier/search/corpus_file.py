"""A corpus as a file: numpy's npz, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array, as_like, to_host
from falsifier.errors import InputError
from falsifier.numpy_file import numpy_file
from falsifier.search.corpus import Corpus

_FORMAT = 1


def save(corpus: Corpus, path: Path) -> None:
    """Write the entries of a corpus. A file that is there is replaced in one step. Raises InputError."""
    spare = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with spare.open("wb") as file:
            np.savez(file, format=np.array(_FORMAT), **corpus.host())
        spare.replace(path)
    except OSError as error:
        spare.unlink(missing_ok=True)
        raise InputError(f"{path}: the corpus cannot be written ({error.strerror or error})") from None


def load(path: Path, like: Array, originals: Array, capacity: int) -> Corpus:
    """The corpus of a file, on the device of `like`. It must have been made for the same originals `[g, f]`.

    Raises InputError for a file that cannot be read, or that belongs to another problem.
    """
    with numpy_file(path, "this is no corpus; remove it or name another") as file:
        if isinstance(file, np.ndarray):
            raise InputError(f"{path}: this is no corpus: it holds one array; remove it or name another")
        parts: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
    try:
        if int(parts["format"]) != _FORMAT:
            raise InputError(f"{path}: a corpus of format {int(parts['format'])}, this version reads {_FORMAT}")
        return _restored(path, parts, like, originals, capacity)
    except InputError:
        raise
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{path}: this is no corpus: {' '.join(str(error).split())}; remove it or name another"
        ) from None


def _restored(path: Path, parts: dict[str, NDArray[Any]], like: Array, originals: Array, capacity: int) -> Corpus:
    known = to_host(originals)
    if parts["originals"].shape != known.shape or parts["x"].dtype != known.dtype:
        raise InputError(
            f"{path}: a corpus of {len(parts['originals'])} originals in {parts['originals'].shape[1]} inputs; "
            f"this search has {known.shape[0]} in {known.shape[1]}: name another file"
        )
    if not np.array_equal(parts["originals"], known):
        raise InputError(f"{path}: a corpus of other boxes than this search has: name another file")
    count = len(parts["x"])
    blank = as_like(np.zeros(len(known)), like, known.dtype)
    corpus = Corpus(
        originals,
        as_like(parts["label"], like),
        as_like(np.zeros(len(known), np.int64), like),
        blank,
        max(capacity, count),
    )
    for name, values in parts.items():
        if name in ("format", "originals", "label"):
            continue
        if name == "next_number":
            corpus.next_number = as_like(values, like)
        elif len(values) == count:
            getattr(corpus, name)[:count] = as_like(values, like)
    corpus.refill(count)
    return corpus
