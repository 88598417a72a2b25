"""The record in a database: what stands in it and beside it, and one line where it cannot be written."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import family

from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.plan import Job, arranged, read_instances
from falsifier.campaign.record import Decision, Progress
from falsifier.campaign.schema import readable
from falsifier.campaign.session import Session
from falsifier.campaign.sqlite import SqliteRecord
from falsifier.campaign.stack import Settings
from falsifier.errors import InputError
from falsifier.verdict import Verdict

JOB = Job("family", "[('f', 'a.onnx'), ('g', 'b.onnx')]", 'q "1",.vnnlib', 5.0, stem="a_b_q")
OTHER = Job("family", "a.onnx", "r.vnnlib", 7.0, stem="a_r", network_hash="n", query_hash="q")
SAT = Decision(Verdict.SAT, "holds", 0.125, 1.5, "((X_0 1.0)\n(Y_0 2.0))\n", "exact", 77, engine="onnxruntime")


def rows(folder: Path) -> list[list[str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.reader(file))


def asked(folder: Path, query: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(folder / "campaign.sqlite")
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def witness(folder: Path, name: str = "a_b_q") -> str:
    return gzip.decompress((folder / "family" / f"{name}.counterexample.gz").read_bytes()).decode()


def test_rows_and_witnesses_in_the_competitions_form_as_they_are_decided(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB, OTHER])
    record.begin([JOB, OTHER])
    record.decide(OTHER, Decision(Verdict.TIMEOUT, "", 0.0, 5.0))
    record.decide(JOB, SAT)
    late = [
        ["family", OTHER.onnx, OTHER.vnnlib, "0.0000", "timeout", "5.0000"],
        ["family", JOB.onnx, JOB.vnnlib, "0.1250", "sat", "1.5000"],
    ]
    assert rows(tmp_path) == late
    assert witness(tmp_path) == SAT.witness
    record.close()
    assert rows(tmp_path) == late[::-1]  # in the plan's order
    assert [p.name for p in (tmp_path / "family").iterdir()] == ["a_b_q.counterexample.gz"]


def test_what_is_known_of_an_attempt(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB, OTHER], Session({"device": "cpu"}, shard="1/2"))
    record.begin([OTHER], worker="2")
    record.decide(JOB, SAT)
    made = Decision(Verdict.UNKNOWN, "the cap", 0.5, 2.0, None, None, 300, (-0.25, -1.5), "torch", disjuncts=(1, 4))
    record.decide(OTHER, made)
    found = asked(
        tmp_path,
        "select session, worker, verdict, reason, evaluations, margins, disjuncts, engine, "
        "network_hash, query_hash from attempt order by instance_id",
    )
    assert found == [
        (0, "", "sat", "holds", 77, "[]", "[]", "onnxruntime", "", ""),
        (0, "2", "unknown", "the cap", 300, "[-0.25, -1.5]", "[1, 4]", "torch", "n", "q"),
    ]
    values = {key: json.loads(value) for key, value in asked(tmp_path, "select key, value from campaign")}
    assert values["schema"] == 1
    assert values["settings"] == {"device": "cpu"}
    assert values["shard"] == "1/2"
    assert values["ended"] is None
    assert len(values["sessions"]) == 1
    record.close()
    assert json.loads(asked(tmp_path, "select value from campaign where key = 'ended'")[0][0]) is not None


def test_a_better_witness_takes_the_place_of_the_first(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB])
    record.decide(JOB, Decision(Verdict.SAT, "", 0.0, 1.0, "first\n", "correct"))
    record.improve(JOB, Decision(Verdict.SAT, "", 0.0, 2.0, "second\n", "exact", 40))
    assert witness(tmp_path) == "second\n"
    assert [row[5] for row in rows(tmp_path)] == ["1.0000"]
    assert asked(tmp_path, "select class from witness") == [("exact",)]
    assert asked(tmp_path, "select seconds, evaluations from attempt") == [(1.0, 40)]


def test_rows_that_read_the_same_are_two_instances(tmp_path: Path) -> None:
    again = replace(JOB, repeat=1, fault="twice")
    record = SqliteRecord(tmp_path, [JOB, again])
    record.decide(again, Decision(Verdict.ERROR, "twice"))
    record.decide(JOB, Decision(Verdict.UNKNOWN, ""))
    record.close()
    assert [row[4] for row in rows(tmp_path)] == ["unknown", "error"]


def test_rows_that_could_not_be_used_have_witnesses_of_their_own_once_they_can(tmp_path: Path) -> None:
    good = [replace(OTHER, vnnlib=f"r{i}.vnnlib", stem="a_r", query_hash=f"q{i}", number=i + 1) for i in range(4)]
    nameless = [replace(job, stem="", fault="missing", network_hash="", query_hash="") for job in good[:2]]
    unread = [replace(job, fault="unreadable", network_hash="", query_hash="") for job in good[2:]]
    SqliteRecord(tmp_path, [*nameless, *unread]).abandon()
    record = SqliteRecord(tmp_path, good, resume=True)
    for i, job in enumerate(good):
        record.decide(job, replace(SAT, witness=f"{i}\n"))
    record.close()
    stems = [str(stem) for (stem,) in asked(tmp_path, "select stem from instance order by id")]
    assert sorted(stems) == ["a_r", "a_r_2", "a_r_3", "a_r_4"]
    assert [witness(tmp_path, stem) for stem in stems] == ["0\n", "1\n", "2\n", "3\n"]


def test_samples_of_the_progress_are_a_second_apart(tmp_path: Path) -> None:
    now = [100.0]
    record = SqliteRecord(tmp_path, [JOB, OTHER], clock=lambda: now[0])
    progress = Progress(2, record.verdicts, 1, 64, 0, 9.0, None)
    for step in range(35):
        now[0] = 100.0 + 0.1 * step
        record.progress(replace(progress, evaluations=step))
    found = asked(tmp_path, "select time, session, open, falsified, lanes, evaluations, coverage from progress")
    assert [row[0] for row in found] == pytest.approx([0.0, 1.0, 2.0, 3.0], abs=0.11)
    assert found[0][1:] == (0, 2, 0, 64, 0, None)
    record.close()
    assert asked(tmp_path, "select time, evaluations from progress")[-1] == (3.4, 34)  # how it ended


def test_a_folder_that_holds_results_or_a_record_is_not_touched(tmp_path: Path) -> None:
    SqliteRecord(tmp_path / "out", [JOB]).close()
    with pytest.raises(InputError, match="holds a record already: go on with --resume"):
        SqliteRecord(tmp_path / "out", [JOB])
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "results.csv").write_text("precious\n")
    for resume in (False, True):
        with pytest.raises(InputError, match="exists: choose another folder"):
            SqliteRecord(tmp_path / "old", [JOB], resume=resume)
    assert [p.name for p in (tmp_path / "old").iterdir()] == ["results.csv"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="is a file"):
        SqliteRecord(tmp_path / "out", [JOB])


def test_no_half_row_stays_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    record = SqliteRecord(tmp_path, [JOB, OTHER], warn=told.append)
    record.decide(JOB, Decision(Verdict.UNKNOWN, ""))
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    record.decide(OTHER, Decision(Verdict.UNKNOWN, ""))
    monkeypatch.undo()
    (line,) = told
    assert "results.csv: cannot be written: the disk is full; answers are kept in" in line
    assert [row[4] for row in rows(tmp_path)] == ["unknown"]
    record.abandon()
    SqliteRecord(tmp_path, [JOB, OTHER], resume=True).close()
    assert len(rows(tmp_path)) == 2  # the database had it


def test_a_database_that_is_full_keeps_nothing_of_a_decision(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB, OTHER])
    record.decide(OTHER, Decision(Verdict.UNKNOWN, ""))
    assert record._database is not None
    (pages,) = record._database.execute("pragma page_count").fetchone()
    record._database.execute(f"pragma max_page_count = {pages}")
    large = "".join(f"(X_{i} {hash((i, 'x'))})\n" for i in range(20000))
    with pytest.raises(InputError, match=r"campaign.sqlite: cannot be used: database or disk is full"):
        record.decide(JOB, replace(SAT, witness=large))
    assert rows(tmp_path) == [["family", OTHER.onnx, OTHER.vnnlib, "0.0000", "unknown", "0.0000"]]
    assert not (tmp_path / "family").exists()
    assert asked(tmp_path, "select count(*) from witness") == [(0,)]


def test_exports_that_cannot_be_written_cost_no_answer(tmp_path: Path) -> None:
    """A folder in the place of a witness: the record goes on, says so once, and leaves neither half a witness nor a
    row without one. What the end cannot make up either is an error, and `resume` makes it up.
    """
    told: list[str] = []
    record = SqliteRecord(tmp_path, [JOB, OTHER], warn=told.append)
    place = tmp_path / "family" / "a_b_q.counterexample.gz"
    place.mkdir(parents=True)
    record.decide(JOB, replace(SAT, class_="correct"))
    record.improve(JOB, replace(SAT, witness="better\n"))
    record.decide(OTHER, Decision(Verdict.UNKNOWN, ""))
    assert [p.name for p in (tmp_path / "family").iterdir()] == [place.name]
    assert [row[2] for row in rows(tmp_path)] == [OTHER.vnnlib]
    (line,) = told
    assert "a_b_q.counterexample.gz: cannot be written: " in line
    assert str(tmp_path / "campaign.sqlite") in line
    with pytest.raises(InputError, match=f"the record is whole: falsifier export {tmp_path} makes this up"):
        record.close()
    place.rmdir()
    again = SqliteRecord(tmp_path, [JOB, OTHER], resume=True)
    assert not again.waiting
    again.close()
    assert [row[2] for row in rows(tmp_path)] == [JOB.vnnlib, OTHER.vnnlib]
    assert witness(tmp_path) == "better\n"


def test_exports_that_fell_behind_are_made_up_at_the_end(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB, OTHER])
    (tmp_path / "family").write_text("")  # no folder can be made there
    record.decide(JOB, SAT)
    (tmp_path / "family").unlink()
    record.decide(OTHER, Decision(Verdict.UNKNOWN, ""))
    record.close()
    assert len(rows(tmp_path)) == 2
    assert witness(tmp_path) == SAT.witness


def test_readers_write_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    record = SqliteRecord(tmp_path, [JOB, OTHER])
    record.decide(JOB, SAT)
    beside = readable(tmp_path)  # while the campaign runs
    assert beside.execute("select count(*) from answer").fetchone() == (1,)
    record.decide(OTHER, Decision(Verdict.UNKNOWN, ""))
    assert beside.execute("select count(*) from answer").fetchone() == (2,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        beside.execute("delete from witness")
    beside.close()
    record.close()
    readable(tmp_path).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["campaign.lock", "campaign.sqlite", "family", "results.csv"]


def test_folders_with_names_of_any_bytes(tmp_path: Path) -> None:
    """Shown as they can be in a database and a table; what is opened, and gone on with, is the same."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/fo\xffo"))
    folder.mkdir()
    table = family(folder, 4)
    (folder / "vnnlib" / "q1.vnnlib").unlink()
    for resume, waiting in ((False, 4), (True, 1)):
        jobs = arranged(read_instances(table))
        record = SqliteRecord(tmp_path / "out", jobs, resume=resume)
        assert len(record.waiting) == waiting
        Driver(record.waiting, record, Settings(evaluations=2000), Inline()).run()
        record.close()
    assert {row[0] for row in rows(tmp_path / "out")} == {"fo\\xffo"}
    assert sorted(row[4] for row in rows(tmp_path / "out")) == ["error", "sat", "sat", "unknown"]
    ((reason,),) = asked(tmp_path / "out", "select distinct fault from instance where fault != ''")
    assert "fo\\xffo" in reason
    assert len(list((tmp_path / "out" / "fo\\xffo").iterdir())) == 2
