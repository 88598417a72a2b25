"""A campaign that hands what stays open to a verifier: limits, order, answers that are checked, and the record."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from campaigns import Kept, family
from command import ENVIRONMENT, falsifier
from fake_solvers import solver, still_running

from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.hand_off import HandOff
from falsifier.campaign.plan import arranged, read_instances
from falsifier.campaign.record import Decision, Progress
from falsifier.campaign.stack import Settings
from falsifier.handoff.adapter import Availability, Outcome
from falsifier.handoff.handoff import Handoff
from falsifier.query import read
from falsifier.verdict import Verdict


@dataclass
class Fake:
    """An adapter that answers by the query's name, and notes what it was given."""

    answers: dict[str, Outcome]
    name: str = "fake"
    share: float = 0.25
    seen: dict[str, Handoff] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def availability(self) -> Availability:
        return Availability(True)

    def take(self, handoff: Handoff, deadline: float) -> Outcome:
        name = handoff.instance.query.name
        self.seen[name] = handoff
        self.seconds[name] = deadline - time.monotonic()
        assert read(handoff.instance.query).networks
        return self.answers.get(name, Outcome(Verdict.UNKNOWN, "does not know"))


UNSAT = Outcome(Verdict.UNSAT, "all boxes", "fake 1.0", "exact")
WRONG = Outcome(Verdict.SAT, "found it", "fake 1.0", inputs=[np.zeros(3)])


def run(path: Path, adapter: Fake, settings: Settings) -> tuple[Kept, Counter[Verdict], list[str], list[Progress]]:
    kept, warned, progress = Kept(waiting=arranged(read_instances(path))), list[str](), list[Progress]()

    def tell(now: Progress) -> None:
        progress.append(replace(now, verdicts=+now.verdicts))

    hand_off = HandOff(adapter, lambda limit: adapter.share * limit, kept, settings, warned.append, tell)
    campaign = Driver(hand_off.waiting, hand_off, settings, Inline(), hand_off.told, warned.append)
    return kept, hand_off.finish(campaign.run()), warned, progress


def test_open_instances_are_handed_over_within_their_limits(tmp_path: Path) -> None:
    """Every third has no answer: q2, q5, q8. What is decided goes to nobody."""
    adapter = Fake({"q2.vnnlib": UNSAT, "q5.vnnlib": WRONG})
    kept, verdicts, warned, progress = run(family(tmp_path, 9), adapter, Settings(evaluations=2000))
    assert sorted(adapter.seen) == ["q2.vnnlib", "q5.vnnlib", "q8.vnnlib"]
    found = {Path(name).name: decision for name, decision in kept.decisions.items()}
    assert {name: found[name].verdict.value for name in sorted(found)} == {
        f"q{i}.vnnlib": "sat" if i % 3 < 2 else "unsat" if i == 2 else "unknown" for i in range(9)
    }
    assert sorted(Path(name).name for name in kept.begun) == [f"q{i}.vnnlib" for i in range(9)]
    assert kept.samples[-1].verdicts == verdicts
    assert verdicts == Counter(decision.verdict for decision in kept.decisions.values())
    assert "fake (fake 1.0) claims that no input satisfies the query" in found["q2.vnnlib"].reason
    assert found["q5.vnnlib"].witness is None
    for name, handoff in adapter.seen.items():
        assert handoff.instance.timeout == 20.0
        spent = 20.0 - adapter.seconds[name]  # by the search, and by reading the query again
        assert 0 < spent <= found[name].prepare + found[name].seconds + 1e-3
    (first, refused, unknown) = warned
    assert first == "3 open instances go to fake"
    assert "q5.vnnlib: fake: claims sat, which the replay refuses" in refused
    assert "q8.vnnlib: fake: does not know" in unknown
    assert [sum(p.verdicts.values()) for p in progress[-4:]] == [6, 7, 8, 9]
    assert all(p.left <= 9 * 20.0 + 1e-6 for p in progress)
    assert abs(progress[-1].left) < 1e-6


def test_a_witness_of_the_verifier_is_the_answer(tmp_path: Path) -> None:
    """The search has no time at all here; the door judges the verifier's inputs."""
    inputs = [np.array([0.875, 1.0, 0.0])]
    adapter = Fake({"q0.vnnlib": Outcome(Verdict.SAT, "found it", "fake", inputs=inputs)}, share=0.0)
    kept, _, _, _ = run(family(tmp_path, 2), adapter, Settings())
    decision = kept.decisions["./vnnlib/q0.vnnlib"]
    assert (decision.verdict, decision.class_) == (Verdict.SAT, "exact")
    assert decision.witness is not None
    assert "(X_0 0.875)" in decision.witness


def test_what_the_search_took_is_not_there_for_the_verifier(tmp_path: Path) -> None:
    """A limit that was used up leaves nothing to hand over: the answer is recorded at once."""
    adapter = Fake({"q0.vnnlib": UNSAT, "q1.vnnlib": UNSAT})
    kept = Kept(waiting=arranged(read_instances(family(tmp_path, 2))))
    record = HandOff(adapter, lambda limit: 5.0, kept, Settings())
    over, open_ = record.waiting
    assert (over.limit, open_.limit) == (5.0, 5.0)
    record.decide(over, Decision(Verdict.TIMEOUT, "late", 1.0, 19.0))
    assert kept.answers() == {"./vnnlib/q0.vnnlib": "timeout"}
    record.decide(open_, Decision(Verdict.UNKNOWN, "exhausted", 1.0, 2.0))
    assert len(kept.decisions) == 1
    assert record.finish(Counter({Verdict.TIMEOUT: 1, Verdict.UNKNOWN: 1})) == Counter(
        {Verdict.TIMEOUT: 1, Verdict.UNSAT: 1}
    )
    assert list(adapter.seen) == ["q1.vnnlib"]
    assert 15 < adapter.seconds["q1.vnnlib"] <= 17


def command(path: Path, program: Path, out: Path) -> list[str]:
    config = out.parent / "adapters.toml"
    config.write_text(f'[fake]\nadapter = "standard_solver"\ncommand = ["{program}"]\n')
    words = ["campaign", str(path), "--out", str(out), "--max-evaluations", "2000", "--category", "sums"]
    return [*words, "--then", "fake", "--config", str(config)]


def test_the_command_hands_over(tmp_path: Path) -> None:
    path = family(tmp_path, 3)
    done = falsifier(*command(path, solver(tmp_path, "unsat"), tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "out" / "results.csv").read_text().splitlines()
    assert sorted(row.split(",")[4] for row in rows) == ["sat", "sat", "unsat"]
    assert done.stderr.splitlines()[-1].startswith("falsifier: 3 instances: 2 sat, 1 unsat")


def test_samples_are_handed_over_as_files(tmp_path: Path) -> None:
    """A program can be asked about a question that comes from no file."""
    family(tmp_path, 0)
    np.savez(tmp_path / "x.npz", x=np.array([[0.5, 0.25, 0.75]]))
    words = command(tmp_path / "onnx" / "sums.onnx", solver(tmp_path, "unsat"), tmp_path / "out")
    words += ["--dataset", str(tmp_path / "x.npz"), "--epsilon", "0.01"]
    done = falsifier(*words)
    assert done.returncode == 0, done.stderr
    assert ",unsat," in (tmp_path / "out" / "results.csv").read_text()


def test_a_verifier_that_is_missing_costs_one_line(tmp_path: Path) -> None:
    done = falsifier(*command(family(tmp_path, 6), tmp_path / "nothing", tmp_path / "out"))
    assert done.returncode == 0
    assert done.stderr.count("is not available here: install") == 1
    assert done.stderr.splitlines()[-1].startswith("falsifier: 6 instances: 4 sat, 2 unknown")


def test_settings_without_a_verifier_are_refused(tmp_path: Path) -> None:
    done = falsifier("campaign", str(family(tmp_path, 1)), "--out", str(tmp_path / "out"), "--then-after", "1")
    assert (done.returncode, done.stderr) == (2, "falsifier: --then-after belongs to --then NAME, which is not given\n")
    assert not (tmp_path / "out").exists()


def test_an_interrupted_hand_off_leaves_nothing_running(tmp_path: Path) -> None:
    """What is decided stands in the folder, what waits for the verifier has no row."""
    path = family(tmp_path, 6)
    words = [sys.executable, "-P", "-m", "falsifier", *command(path, solver(tmp_path, "deaf"), tmp_path / "out")]
    running = subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    last = time.monotonic() + 60
    while not [line for line in still_running(tmp_path) if "verify" in line] and time.monotonic() < last:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 128 + signal.SIGTERM
    assert "interrupted: 4 of 6 instances are decided" in said
    assert len((tmp_path / "out" / "results.csv").read_text().splitlines()) == 4
    last = time.monotonic() + 2
    while still_running(tmp_path) and time.monotonic() < last:
        time.sleep(0.05)
    assert still_running(tmp_path) == []
