"""A campaign on a Ray cluster of several nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from campaigns import Kept, family

from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.executors.node_folder import NodeFolder
from falsifier.campaign.plan import Job, arranged, read_instances
from falsifier.campaign.record import Decision
from falsifier.campaign.stack import Settings

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray leaves files and sockets to the collector

_SETTINGS = Settings(device="cpu", evaluations=2000)


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A head without workers, and nodes of one CPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, wait=False)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a short name: sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp") as folder:
        yield Path(folder)


def test_a_node_that_dies_costs_no_answer(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from falsifier.campaign.executors.ray import Ray

    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "t" * 32)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    jobs = arranged(read_instances(family(tmp_path, 60)))
    alone = Kept()
    Driver(jobs, alone, _SETTINGS, Inline()).run()
    with cluster(2) as made:
        ray = Ray(made.address, None, None, None)
        ray.prepare(_SETTINGS)
        assert ray.width == 2

        class Killing(Kept):
            """Kills a node while both are at a unit."""

            def decide(self, job: Job, decision: Decision) -> None:
                super().decide(job, decision)
                if len(set(self.workers)) == 2 and len(made.worker_nodes) == 2:
                    made.remove_node(next(iter(made.worker_nodes)), allow_graceful=False)

        record = Killing()
        capfd.readouterr()
        Driver(jobs, record, _SETTINGS, ray).run()
        said = capfd.readouterr()
        assert not said.err  # a dead node is no news here, whatever Ray itself has to say of it
        assert not said.out or said.out.startswith("\x1b[33m(raylet)")
        assert len(made.worker_nodes) == 1
    assert record.answers() == alone.answers()
    assert len(record.begun) > 60  # what the node was at, once more
    assert {d.witness is None for d in record.decisions.values() if d.verdict.value == "sat"} == {False}
    NodeFolder("another", "campaign").leave()  # removes what the killed node left
    assert not list(temporary.glob("falsifier-*"))
