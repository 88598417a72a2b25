"""Records put together: nothing is lost, nothing counted twice, and what contradicts itself is refused."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from falsifier.campaign.merge import merge
from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, Progress
from falsifier.campaign.schema import readable
from falsifier.campaign.session import Session
from falsifier.campaign.sqlite import SqliteRecord
from falsifier.errors import InputError
from falsifier.testing.records import JOBS
from falsifier.verdict import Verdict

SAT, UNKNOWN, ERROR, UNSAT = (
    Decision(Verdict.SAT, "holds", 0.5, 1.5, "((X_0 1.0)\n(Y_0 2.0))\n", "exact", 20),
    Decision(Verdict.UNKNOWN, "the cap", margins=(-1.0,), disjuncts=(0,)),
    Decision(Verdict.ERROR, "broken"),
    Decision(Verdict.UNSAT, "empty"),
)


def recorded(
    folder: Path,
    jobs: Sequence[Job],
    decisions: Sequence[Decision | None],
    session: Session | None = None,
    *,
    close: bool = True,
) -> Path:
    record = SqliteRecord(folder, jobs, session)
    record.begin(jobs)
    for job, decision in zip(jobs, decisions, strict=True):
        if decision is not None:
            record.decide(job, decision)
    record.progress(Progress(len(jobs), Counter(), 1, 2, 3, 4.0, None))
    record.close() if close else record.abandon()
    return folder


def verdicts(folder: Path) -> list[tuple[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return [(row[2], row[4]) for row in csv.reader(file)]


def test_shards_become_the_record_of_the_whole(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[::2], (SAT, UNKNOWN, UNSAT), Session(shard="1/2"))
    two = recorded(tmp_path / "2", JOBS[1::2], (ERROR, None, SAT), Session(shard="2/2"), close=False)
    found, notes = merge(tmp_path / "all", [two, one])
    assert found == {Verdict.SAT: 2, Verdict.UNKNOWN: 1, Verdict.UNSAT: 1, Verdict.ERROR: 1}
    assert verdicts(tmp_path / "all") == [
        ("q0.vnnlib", "sat"),
        ("q1.vnnlib", "error"),
        ("q2.vnnlib", "unknown"),
        ("q4.vnnlib", "unsat"),
        ("q5.vnnlib", "sat"),
    ]
    witness = tmp_path / "all" / "family" / "net_q5.counterexample.gz"
    assert gzip.decompress(witness.read_bytes()).decode() == SAT.witness
    assert notes == [
        f"{two}: has not come to its end: it was cut short, or runs still",
        "1 instance has no answer: falsifier campaign ... --resume runs it",
    ]
    database = readable(tmp_path / "all")
    assert database.execute("select distinct session from progress order by 1").fetchall() == [(0,), (1,)]
    sessions = database.execute(
        "select vnnlib, session from attempt join instance on instance.id = instance_id order by vnnlib"
    ).fetchall()
    assert [session for _, session in sessions] == [1, 0, 1, 0, 1, 0]
    assert database.execute("select margins from answer where verdict = 'unknown'").fetchone() == ("[-1.0]",)
    database.close()
    record = SqliteRecord(tmp_path / "all", JOBS, resume=True)
    assert list(record.waiting) == [JOBS[1], JOBS[3]]
    record.close()


def test_a_shard_that_is_missing_is_told(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:1], (SAT,), Session(shard="2/3"))
    assert merge(tmp_path / "all", [one])[1] == ["shards that are missing: 1/3, 3/3"]


def test_where_records_overlap_what_settles_an_instance_counts(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:3], (SAT, UNKNOWN, ERROR))
    two = recorded(tmp_path / "2", JOBS[:3], (UNKNOWN, None, UNKNOWN))
    for order, out in (([one, two], "a"), ([two, one], "b")):
        found, _ = merge(tmp_path / out, order)
        assert found == {Verdict.SAT: 1, Verdict.UNKNOWN: 2}
        assert (tmp_path / out / "family" / "net_q0.counterexample.gz").exists()


def test_a_record_merged_with_a_part_of_it_is_the_same_again(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:2], (SAT, UNKNOWN))
    two = recorded(tmp_path / "2", JOBS[2:4], (UNSAT, SAT))
    merge(tmp_path / "a", [one, two])
    merge(tmp_path / "b", [tmp_path / "a", two])
    counts = []
    for name in ("a", "b"):
        database = readable(tmp_path / name)
        tables = ("instance", "attempt", "witness", "progress")
        counts.append([database.execute(f"select count(*) from {table}").fetchone() for table in tables])
        database.close()
    assert counts[0] == counts[1]
    assert verdicts(tmp_path / "a") == verdicts(tmp_path / "b")


def test_witnesses_of_other_instances_under_one_name(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:1], (SAT,))
    other = replace(JOBS[1], stem=JOBS[0].stem)
    two = recorded(tmp_path / "2", [other], (replace(SAT, witness="other\n"),))
    merge(tmp_path / "all", [one, two])
    texts = {p.name: gzip.decompress(p.read_bytes()).decode() for p in (tmp_path / "all" / "family").iterdir()}
    assert texts == {"net_q0.counterexample.gz": SAT.witness, "net_q0_2.counterexample.gz": "other\n"}


def test_rows_without_names_have_none_that_is_made_up(tmp_path: Path) -> None:
    nameless = [replace(job, stem="", fault="missing", network_hash="", query_hash="") for job in JOBS[:2]]
    merge(tmp_path / "all", [recorded(tmp_path / "1", nameless, (ERROR, ERROR))])
    again = SqliteRecord(tmp_path / "all", JOBS[:2], resume=True)
    for i, job in enumerate(JOBS[:2]):
        again.decide(job, replace(SAT, witness=f"{i}\n"))
    again.close()
    kept = {path.name: gzip.decompress(path.read_bytes()) for path in (tmp_path / "all" / "family").iterdir()}
    assert kept == {"net_q0.counterexample.gz": b"0\n", "net_q1.counterexample.gz": b"1\n"}


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:2], (SAT, UNKNOWN), Session({"require": "correct"}))
    cases = {
        "says unsat of net.onnx, q0.vnnlib, .*1 says sat: one of them is wrong": (
            JOBS[0],
            UNSAT,
            Session({"require": "correct"}),
        ),
        "its files of net.onnx, q0.vnnlib are others than": (
            replace(JOBS[0], query_hash="new"),
            SAT,
            Session({"require": "correct"}),
        ),
        "was made with --require exact, .* with correct": (JOBS[3], SAT, Session({"require": "exact"})),
    }
    for i, (says, (job, decision, session)) in enumerate(cases.items()):
        two = recorded(tmp_path / f"two{i}", [job], (decision,), session)
        with pytest.raises(InputError, match=says):
            merge(tmp_path / "all", [one, two])
    with pytest.raises(InputError, match="is given twice"):
        merge(tmp_path / "all", [one, tmp_path / "1" / ".." / "1"])
    with pytest.raises(InputError, match="holds no record of a campaign"):
        merge(tmp_path / "all", [one, tmp_path])
    assert not (tmp_path / "all").exists()
    with pytest.raises(InputError, match="exists: choose another folder"):
        merge(one, [one])


def test_other_settings_are_told(tmp_path: Path) -> None:
    one = recorded(tmp_path / "1", JOBS[:1], (SAT,), Session({"device": "cpu"}))
    two = recorded(tmp_path / "2", JOBS[1:2], (SAT,), Session({"device": "auto"}))
    assert merge(tmp_path / "all", [one, two])[1] == ["the records were made with different --device: auto, cpu"]
