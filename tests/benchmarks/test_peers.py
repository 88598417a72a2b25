"""The side-by-side run: its figures, its choice of rows, its contenders' environment, its refusals."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import peers
import pytest
from peers_summary import ALL, Trial, percentile, summary, tables


def _trial(contender: str, query: str, seconds: float, *, solved: bool = True, family: str = "f") -> Trial:
    answer = "sat:exact" if solved else "timeout"
    return Trial(contender, family, "n", query, answer, seconds, solved, False, "", 0, 0.0)


def test_ratios_are_over_what_both_solved() -> None:
    trials = [
        *(_trial("cold", q, s) for q, s in (("a", 1.0), ("b", 2.0), ("c", 9.0))),
        *(_trial("peer", q, s) for q, s in (("a", 10.0), ("b", 4.0))),
        _trial("peer", "c", 20.0, solved=False),
    ]
    found = summary(trials, ["cold"])["families"]["f"]
    assert found["contenders"]["cold"] == {"solved": 3, "tried": 3, "wrong": 0, "median_s": 2.0, "p90_s": 9.0}
    assert found["contenders"]["peer"]["solved"] == 2
    ratios = found["ratios"]["cold / peer"]
    assert ratios["instances"] == 2
    assert ratios["median_of_ratios"] == pytest.approx(0.3)  # of 0.1 and 0.5
    assert ratios["ratio_of_medians"] == pytest.approx(1.5 / 7, abs=1e-4)
    assert ratios["ratio_of_p90s"] == pytest.approx(0.2)


def test_families_are_summed_up_and_nothing_solved_has_no_figures() -> None:
    trials = [_trial("warm", "a", 1.0), _trial("peer", "a", 5.0, solved=False), _trial("warm", "b", 3.0, family="g")]
    figures = summary(trials, ["warm"])
    assert figures["families"][ALL]["contenders"]["warm"]["solved"] == 2
    peer = figures["families"]["f"]["contenders"]["peer"]
    assert (peer["solved"], peer["median_s"]) == (0, None)
    assert figures["families"]["f"]["ratios"]["warm / peer"]["median_of_ratios"] is None
    assert "0/1" in tables(figures)


def test_the_percentile_is_a_value() -> None:
    assert percentile([float(i) for i in range(10)], 0.9) == 9.0
    assert percentile([3.0], 0.9) == 3.0
    assert percentile([], 0.9) is None


def test_rows_spread_over_a_family(tmp_path: Path) -> None:
    instances = tmp_path / "instances.csv"
    lines = [f"f,n,q{i},sat" for i in range(10)] + ["g,n,q,sat", "g,n,r,unsat"]
    instances.write_text("\n".join(["family,network,property,expected", *lines]))
    options = argparse.Namespace(instances=instances, expected=["sat"], family=None, per_family=2)
    assert [row["property"] for row in peers.chosen(options)] == ["q0", "q5", "q"]


def test_a_contender_gets_its_environment_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALSIFIER_WORKER", "60")
    cold, warm = peers.OURS
    with peers.environment(cold.environment):
        assert os.environ["FALSIFIER_WORKER"] == "off"
    with peers.environment(warm.environment):
        assert "FALSIFIER_WORKER" not in os.environ
    assert os.environ["FALSIFIER_WORKER"] == "60"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tool", "peer"], "NAME=VALUE"),
        (["--tool", "peer=/nowhere"], "run_instance.sh"),
        (["--about", "peer=1.0"], "no such --tool"),
        (["--per-family", "0"], "at least 1"),
        (["--plot", "cactus.png"], "[plots]"),
    ],
)
def test_what_cannot_be_run_is_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(peers, "has_matplotlib", lambda: False)
    (tmp_path / "run_arena.py").touch()
    with pytest.raises(SystemExit) as ended:
        peers.options_of(["--arena", str(tmp_path), *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
