"""Witnesses in files: text (a results file, or bare; plain or gzip), a folder of tensors, and folders of these."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.errors import InputError
from falsifier.input_file import decoded, limit_or, read_bytes
from falsifier.verdict import WORDS, Verdict

if TYPE_CHECKING:
    from falsifier.query.tree import Query
    from falsifier.witness.text import Assignment

LIMIT = 1 << 28
"""Bytes of unpacked text that are read: ten times the largest witness of the competition."""

ENDS = (".counterexample", ".counterexample.gz", ".txt", ".txt.gz")
"""What the names of witness files end in."""

_TENSOR = ".pb"


def read_witness_file(query: Query, path: Path) -> Assignment:
    """The values of a witness, from a file or a folder of `<variable>.pb`.

    Raises InputError for what cannot be read, is no witness of this query, or says that there is none.
    """
    if path.is_dir():
        from falsifier.witness.tensors import read_tensors

        return read_tensors(query, path)
    from falsifier.witness.text import read_witness

    text = read_text(path)
    if WORDS.get(text.strip(), Verdict.SAT) is not Verdict.SAT:
        raise InputError(f"{path}: says {text.strip()!r} and holds no witness: only below sat there is one to check")
    return read_witness(query, text, str(path))


def read_text(path: Path) -> str:
    """The text of a file, plain or gzip. Raises InputError where it cannot be read, or is larger than LIMIT."""
    return decoded(read_bytes(path, min(LIMIT, limit_or(LIMIT))), path)


def holds_tensors(folder: Path) -> bool:
    """Whether a folder is itself a witness: it holds a tensor, or nothing at all. Raises InputError."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    return not names or any(name.endswith(_TENSOR) for name in names)


def witnesses_in(folder: Path) -> Iterator[Path]:
    """The witnesses below a folder, sorted: files by the ends of their names, and folders of tensors.

    Raises InputError where the folder cannot be read.
    """

    def unreadable(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})")

    for place, folders, files in os.walk(folder, onerror=unreadable):
        folders.sort()
        if any(name.endswith(_TENSOR) for name in files):
            yield Path(place)
        yield from (Path(place, name) for name in sorted(files) if name.endswith(ENDS))
