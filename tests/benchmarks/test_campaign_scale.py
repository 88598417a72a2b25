"""The script that measures one campaign run in several ways, on generated rows: no arena is needed."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import campaign_scale
import pytest

from falsifier.campaign.plan import read_instances


def test_rows_are_taken_from_every_family_in_turn() -> None:
    rows = [
        {"family": name, "property": f"{name}{i}"}
        for name, count in [("a", 5), ("b", 1), ("c", 3)]
        for i in range(count)
    ]
    taken = [row["property"] for row in campaign_scale.in_turn(rows, 5)]
    assert taken == ["a0", "a1", "b0", "c0", "c1"]
    assert len(campaign_scale.in_turn(rows, 100)) == 9


def test_every_row_has_the_category_of_its_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arena, work = tmp_path / "arena", tmp_path / "work"
    for family in ("a", "b"):
        (arena / "data" / family).mkdir(parents=True)
        for name in ("net.onnx", "q0.vnnlib", "q1.vnnlib"):
            (arena / "data" / family / name).write_text(name)
    rows = [f"{family},data/{family}/net.onnx,data/{family}/q{i}.vnnlib,9,sat" for i in (0, 1) for family in ("a", "b")]
    (arena / "instances.csv").write_text("\n".join(["family,network,property,timeout_s,expected", *rows, ""]))

    def plain(name: str, base: Path, work: Path) -> str:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(base / name, work / name)
        return f"./{name}"

    def networks(name: str, base: Path, work: Path) -> tuple[list[tuple[None, str]], str]:
        return [(None, str(work / name))], plain(name, base, work)

    monkeypatch.setitem(sys.modules, "run_arena", SimpleNamespace(plain=plain, networks=networks))
    table = campaign_scale.arena_table(campaign_scale.parse(["--arena", str(arena)]), work)
    monkeypatch.chdir(work)
    jobs = [job for path in table.paths for job in read_instances(path)]
    assert [job.fault for job in jobs] == [""] * 4
    assert {(job.category, job.onnx) for job in jobs} == {(f, f"./data/{f}/net.onnx") for f in ("a", "b")}
    assert set(table.networks) == {(job.onnx, job.vnnlib) for job in jobs}


def test_a_killed_campaign_is_resumed_and_judged(tmp_path: Path) -> None:
    words = ["--arms", "2", "--rows", "4", "--timeout", "60", "--max-evaluations", "1000", "--kill", "1"]
    options = campaign_scale.parse([*words, "--arena", str(tmp_path / "none")])
    work = tmp_path / "work"
    work.mkdir()
    report = campaign_scale.measure(options, work)
    verdicts = report["undisturbed"]["verdicts"]
    assert sum(verdicts.values()) == 4
    assert set(verdicts) <= {"sat", "unknown"}
    assert len(report["killed"]["kills"]) <= 1
    assert report["compared"]["without an answer"] == report["compared"]["contradictions"] == []
    for judged in report["judged"].values():
        assert judged["refused"] == []
        assert Counter(judged["classes"]).total() >= 1
    assert not campaign_scale.failed(report)
