"""The record: whole rows, whole witnesses, and one line where they cannot be written."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from falsifier.campaign.plan import Job
from falsifier.campaign.record import Decision, ResultsFolder
from falsifier.errors import InputError
from falsifier.verdict import Verdict

JOB = Job("family", "[('f', 'a.onnx'), ('g', 'b.onnx')]", 'q "1",.vnnlib', 5.0, stem="a_b_q")


def rows(folder: Path) -> list[list[str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.reader(file))


def test_rows_and_witnesses_in_the_competitions_form(tmp_path: Path) -> None:
    record = ResultsFolder(tmp_path / "out")
    record.decide(JOB, Decision(Verdict.SAT, "", 0.125, 1.5, "((X_0 1.0)\n(Y_0 2.0))\n", "exact"))
    record.decide(JOB, Decision(Verdict.TIMEOUT, "", 0.0, 5.0))
    assert rows(tmp_path / "out") == [
        ["family", JOB.onnx, JOB.vnnlib, "0.1250", "sat", "1.5000"],
        ["family", JOB.onnx, JOB.vnnlib, "0.0000", "timeout", "5.0000"],
    ]
    witness = tmp_path / "out" / "family" / "a_b_q.counterexample"
    assert witness.read_text() == "((X_0 1.0)\n(Y_0 2.0))\n"
    assert [p.name for p in witness.parent.iterdir()] == [witness.name]


def test_a_better_witness_takes_the_place_of_the_first(tmp_path: Path) -> None:
    record = ResultsFolder(tmp_path / "out")
    record.decide(JOB, Decision(Verdict.SAT, "", witness="first\n", class_="correct"))
    record.improve(JOB, Decision(Verdict.SAT, "", witness="second\n", class_="exact"))
    assert (tmp_path / "out" / "family" / "a_b_q.counterexample").read_text() == "second\n"
    assert len(rows(tmp_path / "out")) == 1


def test_results_of_another_run_are_not_touched(tmp_path: Path) -> None:
    ResultsFolder(tmp_path / "out").decide(JOB, Decision(Verdict.UNKNOWN, ""))
    before = (tmp_path / "out" / "results.csv").read_bytes()
    with pytest.raises(InputError, match="exists: choose another folder"):
        ResultsFolder(tmp_path / "out")
    assert (tmp_path / "out" / "results.csv").read_bytes() == before


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="its folder is a file"):
        ResultsFolder(tmp_path / "out")


def test_no_half_row_stays_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ResultsFolder(tmp_path / "out")
    record.decide(JOB, Decision(Verdict.UNKNOWN, ""))
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(InputError, match="the disk is full"):
        record.decide(JOB, Decision(Verdict.UNKNOWN, ""))
    monkeypatch.undo()
    assert [row[4] for row in rows(tmp_path / "out")] == ["unknown"]


def test_no_half_witness_stays_where_it_cannot_be_put(tmp_path: Path) -> None:
    record = ResultsFolder(tmp_path / "out")
    (tmp_path / "out" / "family" / "a_b_q.counterexample").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot be written"):
        record.decide(JOB, Decision(Verdict.SAT, "", witness="text\n"))
    assert [p.name for p in (tmp_path / "out" / "family").iterdir()] == ["a_b_q.counterexample"]
    assert rows(tmp_path / "out") == []
