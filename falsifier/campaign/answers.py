"""What a record answers, in the plan's order, and its exports."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator

from falsifier.campaign.exports import Exports, Row

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


def export(database: sqlite3.Connection, exports: Exports, without: Container[int] = ()) -> None:
    """Write the witness files that are not there yet, then results.csv. Raises InputError."""
    for number, path, data in database.execute(_WITNESSES):
        if number not in without:
            exports.keep_witness(path, data)
    exports.rewrite(rows(database, without))
