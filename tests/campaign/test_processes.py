"""Worker processes: every instance gets its answer, and one that ends its worker costs itself alone."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import models
import numpy as np
import pytest
from campaigns import Kept, answer, family, network, query

from falsifier.campaign.dataset import DataSet, Property, Setting, fitted, jobs_of
from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.executors.processes import Processes
from falsifier.campaign.plan import arranged, read_instances
from falsifier.campaign.stack import Settings
from falsifier.campaign.units import units_of
from falsifier.network import load


def run(path: Path, executor: Processes, portfolio: str = "standard") -> tuple[Kept, list[str]]:
    record, lines = Kept(), list[str]()
    settings = Settings(device="cpu", portfolio=portfolio, evaluations=2000)
    Driver(arranged(read_instances(path)), record, settings, executor, warn=lines.append).run()
    return record, lines


def children() -> list[int]:
    """Processes that this one started, dead ones that nobody asked for included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(name))
    return found


def test_two_workers_answer_everything_and_leave_nothing(tmp_path: Path) -> None:
    before = children()
    record, lines = run(family(tmp_path, 40), Processes(2))
    assert record.answers() == {f"./vnnlib/q{i}.vnnlib": answer(i) for i in range(40)}
    assert lines == []
    assert len(set(record.workers)) == 2
    assert children() == before


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("segfault", "ended by SIGSEGV while searching"),
        ("killed", "ended by SIGKILL (as the kernel does where memory runs out) while searching"),
        ("leak", "held more than 0.537 GB of memory (--worker-memory) while searching"),
        ("hang", "no sign of life for"),
    ],
)
def test_an_instance_that_ends_its_worker_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, says: str
) -> None:
    shutil.copy(Path(__file__).parent / "faults.py", tmp_path)
    limit = "2" if fault == "hang" else "60"
    path = family(tmp_path, 3, limit)
    query(tmp_path, "vnnlib/bad.vnnlib", 300, [100, 0, 0], [101, 1, 0])
    path.write_text(path.read_text() + f"onnx/sums.onnx,vnnlib/bad.vnnlib,{limit}\n")
    monkeypatch.chdir(tmp_path)
    before = children()
    record, lines = run(path, Processes(2, memory=1 << 29, grace=0.5), f"faults:{fault}")
    verdicts = record.answers()
    assert verdicts.pop("./vnnlib/q2.vnnlib") in ("unknown", "timeout")  # it has no answer, nor much time
    assert verdicts == {"./vnnlib/q0.vnnlib": "sat", "./vnnlib/q1.vnnlib": "sat", "vnnlib/bad.vnnlib": "error"}
    assert len(lines) == 1
    assert lines[0].startswith("vnnlib/bad.vnnlib: its worker")
    assert says in lines[0]
    assert children() == before


def test_samples_go_to_the_workers_that_are_asked_about_them(tmp_path: Path) -> None:
    model = network(tmp_path)
    x = np.random.default_rng(0).uniform(0, 1, (70, 3))
    setting = Setting(Property.TOP1, np.asarray(0.05))
    data = DataSet(x, None, setting, load(model), "x.npz")
    plan = arranged(jobs_of(data, str(model), 20, None))
    settings = Settings(device="cpu", evaluations=500)
    alone, shared = Kept(), Kept()
    Driver(plan, alone, settings, Inline()).run()
    Driver(plan, shared, settings, Processes(2)).run()
    assert alone.answers() == shared.answers()
    assert {"sat", "unknown"} == set(alone.answers().values())
    assert all(len(pickle.dumps(unit.shipped())) < 30_000 for unit in units_of(plan, 16))
    assert data.only([3, 5]).query(1).origin == data.query(5).origin


def test_samples_of_a_network_that_leaves_its_shape_open(tmp_path: Path) -> None:
    ops: list[models.Step] = [
        ("ReduceMean", [], {"axes": [2, 3], "keepdims": 0}),
        models.gemm([[1.0, -1.0], [0.0, 1.0]]),
    ]
    path = models.save(models.chain(ops, ["N", 2, 1, "w"], ["N", 2]), tmp_path / "open.onnx")
    x = np.random.default_rng(0).uniform(0, 1, (40, 2 * 5))
    setting = Setting(Property.TOP1, np.asarray(0.2))
    data = DataSet(x, None, setting, fitted(load(path), (2, 1, 5)), "x.npz")
    plan = arranged(jobs_of(data, str(path), 20, None))
    record = Kept()
    Driver(plan, record, Settings(device="cpu", evaluations=500), Processes(2)).run()
    assert set(record.answers().values()) == {"sat", "unknown"}
