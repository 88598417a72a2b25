"""Campaigns in this process: every instance gets its answer, from its own door, by its own clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from campaigns import WEIGHT, Kept, answer, family, network, query

import falsifier.campaign.run as campaign_run
from falsifier.arguments import Limits
from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.plan import Job, arranged, read_instances
from falsifier.campaign.record import Progress
from falsifier.campaign.run import Campaign
from falsifier.campaign.stack import Settings
from falsifier.errors import InputError
from falsifier.query import read
from falsifier.spec import stacking
from falsifier.verdict import Verdict
from falsifier.witness.text import read_witness


def run(path: Path, evaluations: int = 2000, **options: Any) -> tuple[Kept, list[str]]:
    """A campaign over an instances.csv with so many evaluations for each, and the lines about errors."""
    record, lines = Kept(), list[str]()
    settings = Settings(evaluations=evaluations, **options)
    Driver(arranged(read_instances(path)), record, settings, Inline(), warn=lines.append).run()
    return record, lines


def holds(folder: Path, name: str, text: str) -> bool:
    """Whether the text of a witness satisfies its query, the network being W x."""
    tree = read(folder / name)
    inputs = read_witness(tree, text).inputs[0]
    lines = [line.split() for line in (folder / name).read_text().replace("(", " ").replace(")", " ").splitlines()]
    outputs = np.array(WEIGHT) @ inputs
    for word, relation, left, value in (line for line in lines if line and line[0] == "assert"):
        assert word == "assert"
        kind, index = left.split("_")
        got = (inputs if kind == "X" else outputs)[int(index)]
        if not (got >= float(value) if relation == ">=" else got <= float(value)):
            return False
    return True


def test_every_instance_of_a_network_gets_its_answer(tmp_path: Path) -> None:
    record, lines = run(family(tmp_path, 30))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(30)}
    assert lines == []
    for name, decision in record.decisions.items():
        assert (decision.witness is not None) == (decision.verdict is Verdict.SAT)
        if decision.witness is not None:
            assert decision.class_ == "exact"
            assert holds(tmp_path, name, decision.witness)


def test_the_instances_of_a_network_share_batches_and_torch_stays_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    path = family(tmp_path, 12)
    monkeypatch.setattr(Campaign, "_alone", lambda *args: pytest.fail("run on its own"))
    seen: list[Progress] = []
    monkeypatch.setitem(sys.modules, "torch", None)
    record = Kept()
    Driver(arranged(read_instances(path)), record, Settings(evaluations=2000), Inline(), seen.append).run()
    assert len(record.decisions) == 12
    assert max(progress.open for progress in seen) == 12
    assert seen[-1].left == pytest.approx(0, abs=1e-6)
    assert seen[-1].evaluations <= 12 * 2000 + 12


@pytest.mark.parametrize("first", [1, 3, 5])
def test_stacks_are_cut_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(campaign_run, "_FIRST", first)
    monkeypatch.setattr(campaign_run._Reading, "most", first)
    monkeypatch.setattr(campaign_run, "_MOST", 2 * first)
    record, _ = run(family(tmp_path, 20))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(20)}


@pytest.mark.parametrize("rows", [slice(2, 3), slice(0, 1), slice(0, 9)])
def test_what_a_decision_says_beside_its_verdict(tmp_path: Path, rows: slice) -> None:
    """An instance on its own and a stack of many say the same things."""
    path = family(tmp_path, 9)
    path.write_text("\n".join(path.read_text().splitlines()[rows]))
    record, _ = run(path, 400)
    assert sorted(record.begun) == sorted(record.decisions)
    for name, decision in record.decisions.items():
        assert decision.engine
        assert 0 < decision.evaluations <= 401, name
        if decision.verdict is Verdict.SAT:
            assert (decision.margins, decision.disjuncts) == ((), ())
        else:
            (margin,) = decision.margins
            assert margin == pytest.approx(-0.25, abs=1e-5)  # the bound lies so far beyond what the sum reaches
            assert decision.disjuncts == (0,)
    assert record.samples


def test_queries_are_read_again_where_they_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_run, "_MOST_KEPT", 0)
    record, _ = run(family(tmp_path, 9))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(9)}


def test_what_does_not_stack_is_run_on_its_own(tmp_path: Path) -> None:
    path = family(tmp_path, 3)
    lines = path.read_text()
    declared = models.declare(3, 2) + models.box([0] * 3, [1] * 3)
    for name, clauses in {
        "tied": "(assert (= X_0 X_1))(assert (>= Y_0 1.5))".replace("(= ", "(== "),
        "polynomial": "(assert (>= (* Y_0 Y_0) 3.5))",
        "point": models.box([1] * 3, [1] * 3) + "(assert (>= Y_0 2))",
        "empty": "(assert (<= X_0 -1))(assert (>= Y_0 2))",
        "wrong size": "",
        "hopeless text": "(assert (>= Y_0",
    }.items():
        text = models.declare(2, 2) if name == "wrong size" else declared
        (tmp_path / f"{name}.vnnlib").write_text(text + clauses)
        lines += f"onnx/sums.onnx,{name}.vnnlib,5\n"
    path.write_text(lines)
    record, said = run(path)
    verdicts = {name.removesuffix(".vnnlib"): verdict for name, verdict in record.answers().items() if "/" not in name}
    assert verdicts == {
        "tied": "sat",
        "polynomial": "sat",
        "point": "sat",
        "empty": "unsat",
        "wrong size": "error",
        "hopeless text": "error",
    }
    assert len(said) == 2
    assert any("hopeless text.vnnlib:" in line for line in said)
    assert all("\n" not in line for line in said)


def test_rows_that_cannot_be_run_cost_only_themselves(tmp_path: Path) -> None:
    path = family(tmp_path, 4)
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    rows = [
        "none.onnx,vnnlib/q0.vnnlib,5",
        "onnx/sums.onnx,vnnlib/q1.vnnlib,never",
        "broken.onnx,vnnlib/q0.vnnlib,5",
        "broken.onnx,vnnlib/q1.vnnlib,5",
    ]
    path.write_text(path.read_text() + "\n".join(rows) + "\n")
    jobs = arranged(read_instances(path))
    record, lines = list[str](), list[str]()

    class Listed(Kept):
        def decide(self, job: Job, decision: Any) -> None:
            record.append(decision.verdict.value)

    Driver(jobs, Listed(), Settings(evaluations=2000), Inline(), warn=lines.append).run()
    assert sorted(record) == ["error"] * 4 + ["sat"] * 3 + ["unknown"]
    assert len(lines) == 4


def test_one_network_after_the_other(tmp_path: Path) -> None:
    path = family(tmp_path, 4)
    models.save(models.affine([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), tmp_path / "other.onnx")
    query(tmp_path, "one.vnnlib", 1.5, [0] * 3, [1] * 3)
    query(tmp_path, "two.vnnlib", 1.75, [0] * 3, [1] * 3)
    path.write_text("other.onnx,one.vnnlib,5\n" + path.read_text() + "other.onnx,two.vnnlib,5\n")
    record, _ = run(path)
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(4)} | {
        "one.vnnlib": "sat",
        "two.vnnlib": "sat",
    }


def test_pinned_decimals_give_correct_witnesses_or_none(tmp_path: Path) -> None:
    network(tmp_path)
    for i in range(4):
        query(tmp_path, f"q{i}.vnnlib", 0.5, [0.1, 0, 0.1 * i], [0.1, 1, 0.1 * i])
    path = tmp_path / "instances.csv"
    path.write_text("".join(f"sums.onnx,q{i}.vnnlib,5\n" for i in range(4)))
    record, _ = run(path)
    assert set(record.answers().values()) == {"sat"}
    assert {d.class_ for d in record.decisions.values()} == {"correct"}
    strict, _ = run(path, require="exact")
    assert set(strict.answers().values()) == {"unknown"}


def test_bounds_that_only_rounding_reaches(tmp_path: Path) -> None:
    """X_0 has to be the float32 next to 0.1, which lies above it: only the nearest-rounded boxes hold it."""
    network(tmp_path)
    above = float(np.float32(0.1))
    for i in range(3):
        query(tmp_path, f"q{i}.vnnlib", above, [0, 0, 0.25 * i], [0.1, 0, 0.25 * i])
    path = tmp_path / "instances.csv"
    path.write_text("".join(f"sums.onnx,q{i}.vnnlib,5\n" for i in range(3)))
    record, _ = run(path, 60_000)
    assert set(record.answers().values()) == {"sat"}
    assert {d.class_ for d in record.decisions.values()} == {"correct"}


def clock_of(seconds: float) -> Callable[[], float]:
    """Every look at it takes so many seconds."""
    now = [0.0]

    def clock() -> float:
        now[0] += seconds
        return now[0]

    return clock


def test_limits_hold_by_each_instances_own_clock(tmp_path: Path) -> None:
    path, limits = family(tmp_path, 8), {2: 4, 5: 12}
    rows = [f"onnx/sums.onnx,vnnlib/q{i}.vnnlib,{limits.get(i, 1000)}" for i in range(8)]
    path.write_text("\n".join(rows))
    record, clock = Kept(), clock_of(0.04)
    Driver(arranged(read_instances(path)), record, Settings(), Inline(clock=clock)).run()
    verdicts = [record.decisions[f"vnnlib/q{i}.vnnlib"].verdict.value for i in range(8)]
    assert verdicts == ["timeout" if i % 3 == 2 else "sat" for i in range(8)]
    spent = {name: d.prepare + d.seconds for name, d in record.decisions.items()}
    assert 3.9 < spent["vnnlib/q2.vnnlib"] < 4.3
    assert 11.9 < spent["vnnlib/q5.vnnlib"] < 12.3
    assert sum(spent.values()) == pytest.approx(clock(), rel=0.1)


def test_an_engine_that_fails_leaves_the_instances_to_the_ordinary_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from falsifier.campaign import stack

    monkeypatch.setattr(stack, "_FEWEST_LANES", 1 << 40)
    record, _ = run(family(tmp_path, 5))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(5)}


def test_an_internal_error_costs_one_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = family(tmp_path, 2)
    models.save(models.affine([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), tmp_path / "other.onnx")
    query(tmp_path, "one.vnnlib", 1.5, [0] * 3, [1] * 3)
    path.write_text("other.onnx,one.vnnlib,5\n" + path.read_text())

    def broken(*args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(campaign_run, "Prepared", broken)
    record, lines = run(path)
    assert list(record.answers().values()) == ["error", "sat", "sat"]
    assert lines == ["one.vnnlib: internal error: ZeroDivisionError: a bug"]


def test_version_2_queries_stack_as_well(tmp_path: Path) -> None:
    network(tmp_path)
    for i in range(6):
        text = (
            "(vnnlib-version <2.0>)\n(declare-network N (declare-input X real [1,3]) (declare-output Y real [1,2]))\n"
        )
        text += "".join(f"(assert (>= X[0,{j}] 0.0))\n(assert (<= X[0,{j}] 1.0))\n" for j in range(3))
        (tmp_path / f"q{i}.vnnlib").write_text(text + f"(assert (> Y[0,0] {1.5 + 0.1 * i:.1f}))\n")
    path = tmp_path / "instances.csv"
    path.write_text("".join(f"sums.onnx,q{i}.vnnlib,5\n" for i in range(6)))
    record, _ = run(path)
    assert record.answers() == {f"q{i}.vnnlib": "sat" if i < 5 else "unknown" for i in range(6)}
    assert all((d.witness or "X real").startswith("X real") for d in record.decisions.values())


def test_a_query_that_vanishes_costs_its_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_run, "_MOST_KEPT", 0)
    path = family(tmp_path, 9)

    def stacked_late(*args: Any) -> Any:
        (tmp_path / "vnnlib" / "q3.vnnlib").unlink(missing_ok=True)
        (tmp_path / "vnnlib" / "q5.vnnlib").unlink(missing_ok=True)
        return stacking.stacked(*args)

    monkeypatch.setattr(campaign_run, "stacked", stacked_late)
    record, lines = run(path)
    expected = {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(9)} | {"./vnnlib/q3.vnnlib": "error"}
    assert record.answers() == expected  # the other one never had a candidate
    assert len(lines) == 1
    assert "q3.vnnlib: cannot be read" in lines[0]


def test_an_internal_error_costs_the_stack_its_speed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from falsifier.campaign import stack

    def broken(*args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(stack, "search_run", broken)
    record, lines = run(family(tmp_path, 5))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(5)}
    assert len(lines) == 1
    assert "ZeroDivisionError: a bug; its instances go on one after the other" in lines[0]


def test_a_record_that_cannot_be_written_ends_the_campaign(tmp_path: Path) -> None:
    class Full(Kept):
        def decide(self, job: Job, decision: Any) -> None:
            raise InputError("results.csv: the disk is full")

    with pytest.raises(InputError, match="the disk is full"):
        Driver(arranged(read_instances(family(tmp_path, 5))), Full(), Settings(evaluations=2000), Inline()).run()


@pytest.mark.parametrize("count", [1, 12])
def test_budgets_shrink_the_boxes(tmp_path: Path, count: int) -> None:
    """In a stack and alone. What reaches the bound is the end of each budget, and no less of one does."""
    path = family(tmp_path, count)
    enough, inputs = [0.4375, 0.4375, np.inf], range(count)
    record, _ = run(path, budgets=Limits(np.array(enough), "budgets"))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in inputs}
    for i in inputs:
        decision = record.decisions[f"./vnnlib/q{i}.vnnlib"]
        if decision.witness is not None:
            point = read_witness(read(tmp_path / "vnnlib" / f"q{i}.vnnlib"), decision.witness).inputs[0]
            assert point[:2].tolist() == [0.125 * i + 0.9375, 0.9375]
    record, _ = run(path, budgets=Limits(np.array([0.4375, 0.43, np.inf]), "budgets"))
    assert set(record.answers().values()) == {"unknown"}


@pytest.mark.parametrize("count", [1, 3])
def test_budgets_for_other_inputs_are_an_error_of_the_instance(tmp_path: Path, count: int) -> None:
    record, lines = run(family(tmp_path, count), budgets=Limits(np.ones(2), "b.npy"))
    assert set(record.answers().values()) == {"error"}
    assert len(lines) == count
    assert "b.npy: 2 budgets, the query has 3 inputs: give one for each, in order" in lines[0]
