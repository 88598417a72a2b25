"""What a record answers, in the plan's order, and its exports."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator
from pathlib import Path

from falsifier.campaign.exports import Exports, Row
from falsifier.errors import InputError

_ROWS = """
select instance.id, category, onnx, vnnlib, answer.prepare, answer.verdict, answer.seconds
from answer join instance on instance.id = answer.instance_id order by instance.id
"""
_WITNESSES = """
select answer.instance_id, witness.path, witness.text
from answer join witness on witness.attempt_id = answer.id where answer.verdict = 'sat' order by answer.instance_id
"""


def rows(database: sqlite3.Connection, without: Container[int] = ()) -> Iterator[Row]:
    """The rows of results.csv. without: instances that are to be left out."""
    for number, *fields in database.execute(_ROWS):
        if number not in without:
            yield Row(*fields)


def export(database: sqlite3.Connection, exports: Exports, without: Container[int] = ()) -> tuple[int, int]:
    """Write the witness files that are not there yet, then results.csv; the numbers of rows and of witnesses.

    Raises InputError.
    """
    witnesses = 0
    for number, path, data in database.execute(_WITNESSES):
        if number not in without:
            exports.keep_witness(_inside(path), data)
            witnesses += 1
    table = list(rows(database, without))
    exports.rewrite(table)
    return len(table), witnesses


def _inside(path: str) -> str:
    """The path, which leads into the folder. Raises InputError for a record that another hand has written."""
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise InputError(f"the record has a witness at {path!r}, outside of its folder")
    return path
