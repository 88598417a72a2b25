"""Records read back: the attempt that counts, what is not there, what is no record."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from recorded import Attempt, Instance, change, write_record

from falsifier.campaign.report.data import read_record, witness_reader
from falsifier.campaign.schema import DATABASE
from falsifier.errors import InputError


def test_the_last_attempt_that_ended_counts(tmp_path: Path) -> None:
    lost = Attempt(verdict=None)
    tries = [Attempt("timeout", margins=(-0.5, -0.25), disjuncts=(4, 7)), Attempt("unknown", seconds=3.0), lost]
    write_record(tmp_path, [Instance(attempts=tries), Instance(vnnlib="b"), Instance(vnnlib="c", attempts=())])
    first, second, third = read_record(tmp_path).rows
    assert (first.verdict, first.total, first.attempts, first.margins) == ("unknown", 3.5, 3, ())
    assert (second.verdict, second.class_) == ("sat", "")
    assert (third.verdict, third.attempts, third.attempt) == ("open", 0, None)


def test_margins_keep_the_numbers_of_their_disjuncts(tmp_path: Path) -> None:
    write_record(tmp_path, [Instance(attempts=[Attempt("timeout", margins=(-0.5, -0.25), disjuncts=(4, 7))])])
    (row,) = read_record(tmp_path).rows
    assert list(zip(row.disjuncts, row.margins, strict=True)) == [(4, -0.5), (7, -0.25)]


def test_an_attempt_that_did_not_end_is_begun(tmp_path: Path) -> None:
    write_record(tmp_path, [Instance(attempts=[Attempt(verdict=None)])], facts={"ended": None})
    recorded = read_record(tmp_path)
    assert recorded.rows[0].verdict == "begun"
    assert not recorded.ended


def test_an_answer_about_files_that_have_changed_does_not_count(tmp_path: Path) -> None:
    path = write_record(tmp_path, [Instance()])
    change(path, "update instance set query_hash = 'another'")
    assert read_record(tmp_path).rows[0].verdict == "begun"


def test_a_campaign_at_work_is_read_beside_its_writer(tmp_path: Path) -> None:
    path = write_record(tmp_path, [Instance(), Instance(vnnlib="b", attempts=())])
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("begin immediate")
        writer.execute(
            "insert into attempt (instance_id, session, worker, started, network_hash, query_hash) "
            "values (2, 1, '', 0, 'n', 'q')"
        )
        assert [row.verdict for row in read_record(tmp_path).rows] == ["sat", "open"]
        writer.execute("commit")
        assert [row.verdict for row in read_record(tmp_path).rows] == ["sat", "begun"]
    finally:
        writer.close()


def test_witnesses_are_unpacked_and_damaged_ones_are_none(tmp_path: Path) -> None:
    path = write_record(tmp_path, [Instance(attempts=[Attempt(witness="((X_0 1.0))")]), Instance(vnnlib="b")])
    change(path, "insert into witness values (2, '', '', 'exact', x'1f8b00', 0)")
    recorded = read_record(tmp_path)
    with witness_reader(recorded) as text_of:
        assert [text_of(row.attempt or 0) for row in recorded.rows] == ["((X_0 1.0))", None]
        assert text_of(99) is None


def test_columns_may_hold_anything(tmp_path: Path) -> None:
    path = write_record(tmp_path, [Instance(attempts=[Attempt("timeout", margins=(-1.0,))])], [(0, 1, 0, 5, None)])
    change(
        path,
        "update attempt set margins = 'not json', seconds = x'ff', evaluations = 'many', reason = x'ff'",
        'update instance set networks = \'[1, {"path": 2}, {"path": "a.onnx"}]\'',
        "update progress set evaluations = 'many', coverage = 'much'",
    )
    recorded = read_record(tmp_path)
    (row,) = recorded.rows
    assert (row.margins, row.seconds, row.evaluations, row.networks) == ((), 0.0, 0, ((None, "a.onnx"),))
    assert recorded.progress[0].coverage is None


def test_the_record_may_be_named_itself(tmp_path: Path) -> None:
    path = write_record(tmp_path / "night", [Instance()])
    assert read_record(path).name == "night"


@pytest.mark.parametrize(
    "content", [b"", b"not a database, whatever its name says" * 50, b"SQLite format 3\0" + bytes(50)]
)
def test_what_is_no_record_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DATABASE).write_bytes(content)
    with pytest.raises(InputError, match="record of a campaign") as caught:
        read_record(tmp_path)
    assert "\n" not in str(caught.value)


def test_tables_of_another_program_are_one_line(tmp_path: Path) -> None:
    change(tmp_path / DATABASE, "create table campaign (song text)")
    with pytest.raises(InputError, match="no record of a campaign"):
        read_record(tmp_path)


def test_a_truncated_record_is_one_line(tmp_path: Path) -> None:
    path = write_record(tmp_path, [Instance(vnnlib=str(i)) for i in range(300)])
    change(path, "pragma journal_mode = delete")
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(InputError):
        read_record(tmp_path)


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record of a campaign"):
        read_record(tmp_path / "nowhere")
