"""What other programs read of a record: `results.csv`, and `<category>/<onnx stem>_<vnnlib stem>.counterexample.gz`.

Rows are `category,onnx,vnnlib,prepare_seconds,result,run_seconds`. A row is appended by one write after its witness
file was put in place by one rename; the whole table is put in place by one rename. So a reader never meets half a row
or half a witness.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from falsifier.errors import InputError

RESULTS = "results.csv"


class Row(NamedTuple):
    """A row of results.csv; prepare and seconds: of the instance's own clock."""

    category: str
    onnx: str
    vnnlib: str
    prepare: float
    verdict: str
    seconds: float

    def text(self) -> str:
        """The line."""
        line = io.StringIO()
        fields = [*self[:3], f"{self.prepare:.4f}", self.verdict, f"{self.seconds:.4f}"]
        csv.writer(line, lineterminator="\n").writerow(fields)
        return line.getvalue()


def witness_path(category: str, stem: str) -> str:
    """Where the witness of an instance lies, relative to the folder."""
    return f"{category}/{stem}.counterexample.gz"


class Exports:
    """The files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / RESULTS
        self._rows: int | None = None

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Let results.csv hold these rows; `append` goes on from there. Raises InputError."""
        self.close()
        self._put(self.results, "".join(row.text() for row in rows).encode())

    def append(self, row: Row) -> None:
        """Add a row. Raises InputError; then no part of it is there."""
        data = row.text().encode()
        try:
            if self._rows is None:
                self._rows = os.open(self.results, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            written = os.write(self._rows, data)
            if written < len(data):  # a full disk: no half row stays
                os.ftruncate(self._rows, os.fstat(self._rows).st_size - written)
                raise InputError(f"{self.results}: cannot be written: the disk is full")
        except OSError as error:
            raise InputError(f"{self.results}: cannot be written: {error.strerror}") from None

    def put_witness(self, path: str, data: bytes) -> None:
        """Let a witness file hold the packed text. Raises InputError; then what was there before stays."""
        self._put(self.folder / path, data)

    def keep_witness(self, path: str, data: bytes) -> None:
        """`put_witness` where the file does not hold that already; what a kill left of one goes. Raises InputError."""
        try:
            if (self.folder / path).read_bytes() == data:
                _part(self.folder / path).unlink(missing_ok=True)
                return
        except OSError:
            pass
        self.put_witness(path, data)

    def drop(self, path: str) -> None:
        """Remove the witness file of an instance that is open again, and what a kill left of one."""
        for name in (self.folder / path, _part(self.folder / path)):
            try:
                name.unlink(missing_ok=True)
            except OSError as error:
                raise InputError(f"{name}: cannot be removed: {error.strerror}") from None

    def close(self) -> None:
        """No more rows."""
        if self._rows is not None:
            os.close(self._rows)
            self._rows = None

    def _put(self, path: Path, data: bytes) -> None:
        part = _part(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(data)
                os.replace(part, path)
            except OSError:
                part.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")
